package topology

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/internal/redistest"
)

func TestCallersReturnWhateverTheServerDoes(t *testing.T) {
	testCallersReturn(t, (*outage).check)
}

func TestSoakCallersReturnInTimeWhateverTheServerDoes(t *testing.T) {
	soak(t)
	testCallersReturn(t, (*outage).checkTimes)
}

func testCallersReturn(t *testing.T, check func(*outage, *testing.T)) {
	t.Helper()
	behindProxy := func(t *testing.T) (*redistest.Proxy, string) {
		p := redistest.NewProxy(t, redistest.Standalone(t, redistest.Options{}).Addr())
		return p, "redis://" + p.Addr()
	}
	for _, tt := range []struct {
		server  string
		callers []int
		ill     func(t *testing.T) (url string, hurt, heal func())
	}{
		{"hangs", []int{64, 256, 1500}, func(t *testing.T) (string, func(), func()) {
			s := redistest.Standalone(t, redistest.Options{})
			return s.URL(), s.Pause, s.Resume
		}},
		{"is killed", []int{64, 256}, func(t *testing.T) (string, func(), func()) {
			s := redistest.Standalone(t, redistest.Options{})
			return s.URL(), s.Kill, s.Restart
		}},
		{"is swallowed by the network", []int{64, 256}, func(t *testing.T) (string, func(), func()) {
			p, url := behindProxy(t)
			return url, p.Blackhole, p.Heal
		}},
		{"is cut off", []int{256}, func(t *testing.T) (string, func(), func()) {
			p, url := behindProxy(t)
			return url, p.Cut, p.Heal
		}},
	} {
		for _, callers := range tt.callers {
			if racing.Enabled && callers != 256 {
				continue
			}
			t.Run(fmt.Sprintf("%d callers, server %s", callers, tt.server), func(t *testing.T) {
				url, hurt, heal := tt.ill(t)
				check(runOutage(t, callers, url, hurt, heal), t)
			})
		}
	}
}

// An outage is how callers fared while their server did not respond.
type outage struct {
	callers                           int
	failed                            []time.Duration // of calls that failed, sorted
	idle                              []time.Duration // of calls that only waited: how late this machine is by itself
	goroutinesBefore, goroutinesAfter int
	recovery                          time.Duration // until the first call succeeded
}

// runOutage breaks and repairs a server that many callers use.
func runOutage(t *testing.T, callers int, url string, hurt, heal func()) *outage {
	t.Helper()
	client := connect(t, url+"?dial_timeout=1s", Options{})
	c := newCrowd(callers, func(ctx context.Context, i int) error { return call(ctx, client, fmt.Sprint("client", i)) })
	defer c.end()
	control := newCrowd(16, func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	})
	defer control.end()
	await.True(t, "every caller succeeds", func() bool { return c.good.Load() >= int64(callers) })
	o := &outage{callers: callers, goroutinesBefore: runtime.NumGoroutine()}
	c.failures()
	control.failures()

	hurt()
	await.True(t, "every caller returns", func() bool {
		o.failed = slices.Concat(o.failed, c.failures())
		return len(o.failed) >= 2*callers
	})
	// Wait until its connection is closed, which ends goroutines of the client library.
	server := client.seeds[0]
	await.True(t, "the server counts as unreachable", func() bool { return !server.Connected() })
	o.goroutinesAfter = runtime.NumGoroutine()
	slices.Sort(o.failed)
	o.idle = control.failures()
	healed := time.Now().UnixNano()
	heal()
	o.recovery = await.NoError(t, "the server is repaired", func() error {
		if c.latestGood.Load() < healed {
			return errors.New("no call has succeeded")
		}
		return nil
	})
	t.Logf("%d failed: median %v, p99 %v, p99.9 %v, most %v; of those that only wait p99.9 %v, most %v; "+
		"goroutines %d, then %d; recovered after %v",
		len(o.failed), permille(o.failed, 500), permille(o.failed, 990), permille(o.failed, 999), permille(o.failed, 1000),
		permille(o.idle, 999), permille(o.idle, 1000), o.goroutinesBefore, o.goroutinesAfter, o.recovery)
	return o
}

// check checks what holds on a busy machine too.
func (o *outage) check(t *testing.T) {
	t.Helper()
	if extra := o.goroutinesAfter - o.goroutinesBefore; extra > o.callers+2*hangCalls {
		t.Errorf("%d goroutines more than before, want at most %d", extra, o.callers+2*hangCalls)
	}
}

// checkTimes checks that callers were not delayed.
func (o *outage) checkTimes(t *testing.T) {
	t.Helper()
	o.check(t)
	if got, most := permille(o.failed, 999), permille(o.idle, 1000)+slack(); got > most && o.callers <= 256 {
		t.Errorf("p99.9 of calls: %v, want at most %v", got, most)
	}
	if got, most := permille(o.failed, 1000), permille(o.idle, 1000)+500*time.Millisecond; got > most {
		t.Errorf("the slowest call took %v, want at most %v", got, most)
	}
	if o.recovery > time.Second {
		t.Errorf("recovered after %v, want at most 1s", o.recovery)
	}
}
