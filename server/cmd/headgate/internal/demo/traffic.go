package demo

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// Domain is the domain below which each client of the demo traffic has a host of its own. Rules count by the host,
// which is not secret, so that statistics show it.
const Domain = ".demo.test"

const (
	tick           = 100 * time.Millisecond
	ticksPerMinute = int(time.Minute / tick)
	requestTimeout = time.Second
)

// A Traffic sends requests of a few made-up clients to the gateway: some stay within their limits, one is far above
// them, and one sends a burst each minute. It sends at most about 60 requests per second, one after the other.
type Traffic struct {
	// URL is the gateway. Required.
	URL string
	// Allowed reports whether requests may be sent now. Required.
	Allowed func() bool
	// Logger is required.
	Logger *slog.Logger

	on atomic.Bool
}

// On reports whether the traffic is switched on.
func (t *Traffic) On() bool { return t.on.Load() }

// Switch turns the traffic on or off, from the next tenth of a second on.
func (t *Traffic) Switch(on bool) {
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
		for _, r := range due(n) {
			if err := t.send(ctx, client, r); err != nil {
				t.Logger.Debug("demo request failed", "err", err.Error())
				break // the gateway may be overloaded: add nothing to it in this tick
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
	key          string // the API key that the client is known by, instead of its host
}

// A sender is a client that sends count requests in every tick whose number is a multiple of interval.
type sender struct {
	request
	interval, count int
}

// senders are the clients that send all the time. Only noisy is above its limit.
var senders = []sender{
	{request{client: "alice", path: "/search"}, 8, 1},
	{request{client: "bob", path: "/orders"}, 13, 1},
	{request{client: "carol", path: "/search"}, 5, 1},
	{request{client: "dave", path: "/orders"}, 21, 1},
	{request{client: "mobile-app", path: "/search", key: "demo-key-mobile-app"}, 11, 1},
	{request{client: "noisy", path: "/search"}, 2, 3},
}

// The burst begins burstStart after the start of each minute and sends burstCount requests in each of burstTicks ticks.
const (
	burstStart = int(20 * time.Second / tick)
	burstTicks = 20
	burstCount = 4
)

// due returns the requests of the tick n. It is a function of n alone, so that the traffic repeats.
func due(n int) []request {
	var list []request
	for _, s := range senders {
		if n%s.interval == 0 {
			for range s.count {
				list = append(list, s.request)
			}
		}
	}
	if at := n % ticksPerMinute; at >= burstStart && at < burstStart+burstTicks {
		for range burstCount {
			list = append(list, request{client: "nightly-export", path: "/export"})
		}
	}
	return list
}
