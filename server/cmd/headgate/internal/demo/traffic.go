package demo

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// Domain is the parent domain of the hosts in the demo traffic. Each client sends requests to a host of its own, and
// the demo rules count by host. Statistics show hosts without hashing them, because hosts are not secret.
const Domain = ".demo.test"

const (
	tick           = 100 * time.Millisecond
	ticksPerMinute = int(time.Minute / tick)
	requestTimeout = time.Second
)

// A Traffic sends requests of a few simulated clients to the gateway. Most clients stay within their limits, one is far
// above them, and one sends a burst each minute. There are at most about 60 requests per second, one at a time.
type Traffic struct {
	// URL is the URL of the gateway. Required.
	URL string
	// Allowed reports whether requests may be sent now. Required.
	Allowed func() bool
	// Logger is required.
	Logger *slog.Logger

	on atomic.Bool
}

// On reports whether the traffic is switched on.
func (t *Traffic) On() bool { return t.on.Load() }

// Set turns the traffic on or off. It takes effect within a tenth of a second.
func (t *Traffic) Set(on bool) {
	if t.on.Swap(on) != on {
		t.Logger.Info("demo traffic switched", "on", on)
	}
}

// Run sends requests until ctx ends.
func (t *Traffic) Run(ctx context.Context) {
	transport := &http.Transport{MaxIdleConns: 1, MaxIdleConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport: transport, Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !t.On() || !t.Allowed() {
			continue
		}
		for _, r := range requestsOf(n) {
			if err := t.send(ctx, client, r); err != nil {
				t.Logger.Debug("demo request failed", "err", err.Error())
				break // send no more requests in this tick, because the gateway may be overloaded
			}
		}
	}
}

func (t *Traffic) send(ctx context.Context, client *http.Client, r request) error {
	call, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL+r.path, http.NoBody)
	if err != nil {
		return err
	}
	call.Header.Set("User-Agent", "headgate-demo-traffic")
	if r.key != "" {
		call.Header.Set("X-API-Key", r.key)
	} else {
		call.Host = r.client + Domain
	}
	response, err := client.Do(call)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	_ = response.Body.Close() // it was read
	return err
}

// A request is one request of a client.
type request struct {
	client, path string
	key          string // an API key that identifies the client instead of its host
}

// A sender is a client that sends count requests in every tick whose number is a multiple of interval.
type sender struct {
	request
	interval, count int
}

// senders are the clients that send continuously. Only noisy is above its limit.
var senders = []sender{
	{request{client: "alice", path: "/search"}, 8, 1},
	{request{client: "bob", path: "/orders"}, 13, 1},
	{request{client: "carol", path: "/search"}, 5, 1},
	{request{client: "dave", path: "/orders"}, 21, 1},
	{request{client: "mobile-app", path: "/search", key: "demo-key-mobile-app"}, 11, 1},
	{request{client: "noisy", path: "/search"}, 2, 3},
}

// In each minute, a burst begins at tick burstStart. It has burstCount requests in each of burstTicks ticks.
const (
	burstStart = int(20 * time.Second / tick)
	burstTicks = 20
	burstCount = 4
)

// requestsOf returns the requests of tick n. They depend only on n, so the traffic is always the same.
func requestsOf(n int) []request {
	var list []request
	for _, s := range senders {
		if n%s.interval == 0 {
			for range s.count {
				list = append(list, s.request)
			}
		}
	}
	if tick := n % ticksPerMinute; tick >= burstStart && tick < burstStart+burstTicks {
		for range burstCount {
			list = append(list, request{client: "nightly-export", path: "/export"})
		}
	}
	return list
}
