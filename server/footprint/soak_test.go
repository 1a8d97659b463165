package footprint

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	soakConns    = 64
	soakClients  = 1000 // in the header that the rule of the soak test counts by
	capacityTime = 5 * time.Second
	loadPart     = 0.7
	slopePart    = 0.1 // of the mean in an hour
)

// TestSoakSlopes sends 70 % of the requests that the program can serve for HEADGATE_SOAK_TIME, and checks that memory,
// goroutines, descriptors and latency do not grow.
func TestSoakSlopes(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("set HEADGATE_SOAK=1, as make soak does")
	}
	duration := time.Hour
	if text := os.Getenv("HEADGATE_SOAK_TIME"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	p := startProgram(t, build(t, "CGO_ENABLED=0"))
	l := &soakLoad{url: "http://" + p.gateway + "/", client: &http.Client{
		Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: soakConns},
	}}
	defer l.client.CloseIdleConnections() // or the program waits for them when it is stopped
	rate := l.capacity(t) * loadPart
	warmUp := min(duration/4, 5*time.Minute) // not part of the slopes: buffers and statistics grow to their size
	t.Logf("%.0f requests/s for %v, %.0f %% of the capacity", rate, duration, 100*loadPart)
	ctx, cancel := context.WithTimeout(t.Context(), duration+warmUp)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { l.run(ctx, rate) })
	figures := map[string][]float64{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for began := time.Now(); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-tick.C:
			p99 := l.p99()
			if time.Since(began) < warmUp {
				continue
			}
			figures["memory in bytes"] = append(figures["memory in bytes"], float64(resident(t, p.pid)))
			figures["goroutines"] = append(figures["goroutines"], p.metric(t, "go_goroutines"))
			figures["descriptors"] = append(figures["descriptors"], descriptors(t, p.pid))
			figures["p99 in µs"] = append(figures["p99 in µs"], float64(p99.Microseconds()))
		}
	}
	group.Wait()
	for name, values := range figures {
		s := SlopeOf(values)
		t.Logf("%-16s mean %.0f, slope %+.1f ± %.1f an hour", name, s.Mean, s.PerHour, s.Error)
		if !s.IsFlat(slopePart) && s.PerHour > 0 {
			t.Errorf("%s grows by %.1f an hour, want 0 ± %.1f, or less than %.0f %% of %.0f", name, s.PerHour, 3*s.Error,
				100*slopePart, s.Mean)
		}
	}
	if n := l.failed.Load(); n > 0 {
		t.Errorf("%d of %d requests failed: %v", n, l.sent.Load(), l.firstError.Load())
	}
}

// A soakLoad sends requests of many clients.
type soakLoad struct {
	url          string
	client       *http.Client
	sent, failed atomic.Int64
	firstError   atomic.Value

	mu        sync.Mutex
	latencies []time.Duration // since the last p99
}

func (l *soakLoad) request(i int64) {
	began := time.Now()
	err := l.try(i)
	took := time.Since(began)
	l.sent.Add(1)
	if err != nil {
		l.failed.Add(1)
		l.firstError.CompareAndSwap(nil, err.Error())
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latencies = append(l.latencies, took)
}

func (l *soakLoad) try(i int64) error {
	r, err := http.NewRequest(http.MethodGet, l.url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("X-Client", strconv.FormatInt(i%soakClients, 10))
	response, err := l.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusTooManyRequests {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

// capacity returns how many requests the program serves in a second.
func (l *soakLoad) capacity(t *testing.T) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), capacityTime)
	defer cancel()
	var group sync.WaitGroup
	var served atomic.Int64
	for range soakConns {
		group.Go(func() {
			for ctx.Err() == nil {
				l.request(served.Add(1))
			}
		})
	}
	group.Wait()
	l.p99()
	return float64(served.Load()) / capacityTime.Seconds()
}

// run sends requests at a rate until ctx ends, however late the responses are.
func (l *soakLoad) run(ctx context.Context, rate float64) {
	const interval = 5 * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var group sync.WaitGroup
	defer group.Wait()
	turns := make(chan struct{}, 4*soakConns) // at most so many at once
	began := time.Now()
	for i := int64(0); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-tick.C:
			for due := int64(time.Since(began).Seconds() * rate); i < due && ctx.Err() == nil; i++ {
				turns <- struct{}{}
				group.Go(func() {
					l.request(i)
					<-turns
				})
			}
		}
	}
}

// p99 returns the latency of the slowest percent since the last call.
func (l *soakLoad) p99() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.latencies) == 0 {
		return 0
	}
	slices.Sort(l.latencies)
	p99 := l.latencies[len(l.latencies)*99/100]
	l.latencies = l.latencies[:0]
	return p99
}

func descriptors(t *testing.T, pid int) float64 {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return float64(len(list))
}

// metric returns the value of a metric without labels.
func (p *running) metric(t *testing.T, name string) float64 {
	t.Helper()
	response, err := http.Get("http://" + p.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
