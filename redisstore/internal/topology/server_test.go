package topology

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/attempts"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/internal/redisurl"
)

func TestCallersReturnInTimeWhateverTheServerDoes(t *testing.T) {
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
			if raceDetected && callers != 256 {
				continue
			}
			t.Run(fmt.Sprintf("%d callers, server %s", callers, tt.server), func(t *testing.T) {
				url, hurt, heal := tt.ill(t)
				returnInTime(t, callers, url, hurt, heal)
			})
		}
	}
}

func returnInTime(t *testing.T, callers int, url string, hurt, heal func()) {
	client := connect(t, url+"?dial_timeout=1s", Options{})
	c := newCrowd(callers, func(ctx context.Context, i int) error { return call(ctx, client, fmt.Sprint("client", i)) })
	defer c.end()
	// The control crowd only waits, which shows how late this machine is by itself.
	control := newCrowd(16, func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	})
	defer control.end()
	await.NoError(t, "not so yet", func() error {
		if c.good.Load() < int64(callers) {
			return errors.New("not under way")
		}
		return nil
	})
	attempts.OneOf(t, 5, func() error { return hurtAndHeal(t, c, control, callers, hurt, heal) })
	if raceDetected {
		return // too slow to measure
	}
	// Most calls succeed.
	await.NoError(t, "not so yet", func() error {
		c.failures()
		calls := c.calls.Load()
		time.Sleep(100 * time.Millisecond)
		calls = c.calls.Load() - calls
		if failed := int64(len(c.failures())); failed*2 > calls {
			return fmt.Errorf("%d of %d calls fail", failed, calls)
		}
		return nil
	})
}

// hurtAndHeal breaks and repairs the server, and returns an error if callers were delayed.
func hurtAndHeal(t *testing.T, c, control *crowd, callers int, hurt, heal func()) error {
	t.Helper()
	before := runtime.NumGoroutine()
	c.failures()
	control.failures()

	hurt()
	most := 0
	for range 30 { // until after its connection is closed
		time.Sleep(50 * time.Millisecond)
		most = max(most, runtime.NumGoroutine())
	}
	late := runtime.NumGoroutine()
	times, idle := c.failures(), control.failures()
	healed := time.Now().UnixNano()
	heal()
	took := await.NoError(t, "not so yet", func() error {
		if c.latestGood.Load() < healed {
			return errors.New("no call has succeeded")
		}
		return nil
	})
	t.Logf("%d failed: median %v, p99 %v, p99.9 %v, most %v; of those that only wait p99.9 %v, most %v; goroutines %d before, %d at most, %d late; works %v after",
		len(times), permille(times, 500), permille(times, 990), permille(times, 999), permille(times, 1000),
		permille(idle, 999), permille(idle, 1000), before, most, late, took)
	if len(times) < callers { // callers that wait forever are in no percentile
		return fmt.Errorf("only %d calls came back in 1.5s", len(times))
	}
	if got, want := permille(times, 999), permille(idle, 1000)+slack(); got > want && callers <= 256 {
		return fmt.Errorf("p99.9 of calls: %v, want at most %v", got, want)
	}
	if got, want := permille(times, 1000), permille(idle, 1000)+500*time.Millisecond; got > want {
		return fmt.Errorf("the slowest call took %v, want at most %v", got, want)
	}
	if extra := most - before; extra > callers+2*hangCalls {
		return fmt.Errorf("%d goroutines more than before", extra)
	}
	if took > time.Second {
		return fmt.Errorf("works %v after, want 1s at most", took)
	}
	return nil
}

// The connection to a silent server is replaced after the hang timeout, even with a single call: a connection whose
// data was lost never recovers.
func TestSilentConnectionIsReplacedAfterHangTimeout(t *testing.T) {
	t.Parallel()
	for name, deadline := range map[string]time.Duration{"one call that was given up": 100 * time.Millisecond, "one call that waits": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, redistest.Standalone(t, redistest.Options{}).Addr())
			const hang = 400 * time.Millisecond
			c := connect(t, "redis://"+proxy.Addr()+"?dial_timeout=1s&hang_timeout="+hang.String(), Options{})
			if err := call(within(t, unhurried), c, "alice"); err != nil {
				t.Fatal(err)
			}
			n := c.seeds[0]
			proxy.Blackhole()
			asked := time.Now()
			done := make(chan error, 1)
			go func() { done <- call(within(t, deadline), c, "alice") }()
			await.NoError(t, "not so yet", func() error {
				if n.Connected() {
					return errors.New("its connection was not given up")
				}
				return nil
			})
			took := time.Since(asked)
			t.Logf("given up after %v", took)
			if took < hang || took > hang*5/4+soon { // the machine may be busy
				t.Errorf("given up after %v, want %v or hardly more", took, hang)
			}
			if err := <-done; !errors.Is(err, ErrNoResponse) {
				t.Errorf("got %v, want ErrNoResponse", err)
			}
			proxy.Heal()
			if took := await.NoError(t, "not so yet", func() error { return call(within(t, time.Second), c, "alice") }); took > 2*soon {
				t.Errorf("works %v after, want %v at most", took, 2*soon)
			}
		})
	}
}

// Short deadlines do not cost a working server its connection.
func TestSlowServerKeepsItsConnection(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Standalone(t, redistest.Options{}).Addr())
	c := connect(t, "redis://"+proxy.Addr(), Options{})
	proxy.SetDelay(20 * time.Millisecond)
	for begin := time.Now(); time.Since(begin) < 2500*time.Millisecond; {
		if err := call(within(t, 5*time.Millisecond), c, "alice"); err == nil {
			t.Fatal("it was quick")
		}
	}
	time.Sleep(1500 * time.Millisecond) // all abandoned calls have got their replies
	proxy.SetDelay(0)
	if err := call(within(t, unhurried), c, "alice"); err != nil {
		t.Error(err)
	}
	if got := c.seeds[0].counts.connects.Load(); got != 1 {
		t.Errorf("connected %d times, want once", got)
	}
}

func TestErrorsSayWhetherACallWasSent(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	c := connect(t, server.URL(), Options{})
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Do(done, c.Builder().Ping().Build()).Error(); !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: %v", err)
	}
	server.Pause()
	err := call(within(t, time.Second/2), c, "alice")
	if !errors.Is(err, ErrNoResponse) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnreachable) {
		t.Errorf("hanging: %v", err)
	}
	contains(t, err, server.Addr(), "did not respond in time")
	server.Resume()
	if err := call(within(t, unhurried), c, "alice"); err != nil {
		t.Error(err)
	}
	server.Kill()
	await.NoError(t, "not so yet", func() error {
		err := call(within(t, 200*time.Millisecond), c, "alice")
		if errors.Is(err, ErrUnreachable) && strings.Contains(err.Error(), "nothing listens") {
			return nil
		}
		return fmt.Errorf("not away: %w", err)
	})
}

func TestCallWithoutResponseIsNotSentAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	c := connect(t, "redis://"+proxy.Addr(), Options{})
	incr := func(ctx context.Context) error { return c.Do(ctx, c.Builder().Incr().Key("n").Build()).Error() }
	var sent int64
	for range 40 {
		proxy.SetDelay(10 * time.Millisecond)
		err := incr(within(t, 15*time.Millisecond))
		if err == nil || errors.Is(err, ErrNoResponse) {
			sent++
		}
		proxy.SetDelay(0)
		await.NoError(t, "not so yet", func() error { return c.Do(within(t, time.Second), c.Builder().Ping().Build()).Error() })
		go func() {
			time.Sleep(time.Millisecond)
			proxy.Cut()
			proxy.Heal()
		}()
		for range 20 {
			if err := incr(within(t, time.Second)); err == nil || errors.Is(err, ErrNoResponse) {
				sent++
			}
		}
		await.NoError(t, "not so yet", func() error { return c.Do(within(t, time.Second), c.Builder().Ping().Build()).Error() })
	}
	counted, err := c.Do(within(t, unhurried), c.Builder().Get().Key("n").Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d sent, %d counted", sent, counted)
	if counted > sent {
		t.Errorf("%d calls counted %d times", sent, counted)
	}
}

func TestLostConnectionIsReplacedBeforeCallersNotice(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	c := connect(t, server.URL(), Options{})
	n := c.seeds[0]
	for range 20 {
		connects := n.counts.connects.Load()
		if _, err := server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
			t.Fatal(err)
		}
		await.NoError(t, "not so yet", func() error { // without any call
			if n.counts.connects.Load() == connects || !n.Connected() {
				return errors.New("it was not replaced")
			}
			return nil
		})
		if err := call(within(t, unhurried), c, "alice"); err != nil {
			t.Error(err)
		}
	}
}

func TestMoreCallersThanTheQueueHoldsAllSucceed(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	c := connect(t, server.URL(), Options{})
	callers, times := 5*maxCalls, 5
	if raceDetected {
		callers, times = 2*maxCalls, 3
	}
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for range times {
				if err := call(within(t, 2*time.Minute), c, fmt.Sprint("client", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	n := c.seeds[0]
	if inside, gone := n.calls.active.Load(), n.calls.abandoned.Load(); inside != 0 || gone != 0 {
		t.Errorf("%d calls inside and %d given up when all are done", inside, gone)
	}
}

func TestShortDeadlinesDoNotAffectOthers(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.SetDelay(2 * time.Millisecond)
	c := connect(t, "redis://"+proxy.Addr(), Options{})
	hasty := 200
	attempts.OneOf(t, 6, func() error {
		// A slow machine gets fewer callers.
		hasty /= 2
		stop := make(chan struct{})
		var group sync.WaitGroup
		defer group.Wait()
		defer close(stop)
		for i := range hasty {
			group.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(rand.N(100 * gap())):
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					_ = call(ctx, c, fmt.Sprint("hasty", i))
					cancel()
				}
			})
		}
		failed := 0
		const calls = 100
		for range calls {
			if err := call(within(t, time.Second), c, "patient"); err != nil {
				failed++
				t.Log(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if most := calls / 10; failed > most {
			return fmt.Errorf("%d of %d patient calls failed, want at most %d", failed, calls, most)
		}
		return nil
	})
}

// More calls than count as a hang are abandoned before the server can have responded to any of them.
func TestBurstsOfShortDeadlinesDoNotAffectOthers(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Standalone(t, redistest.Options{}).Addr())
	c := connect(t, "redis://"+proxy.Addr(), Options{})
	if err := call(within(t, unhurried), c, "patient"); err != nil {
		t.Fatal(err)
	}
	proxy.SetDelay(4 * time.Millisecond)
	const bursts = 20
	most := int64(bursts) // on a busy machine it may be silent for long
	if raceDetected {
		most *= 4 // a burst takes much longer then
	}
	attempts.OneOf(t, 5, func() error {
		before := c.seeds[0].counts.hangs.Load()
		for range bursts {
			time.Sleep(30 * time.Millisecond) // the server has been silent, since there were no calls
			var hasty sync.WaitGroup
			for i := range 3 * hangCalls {
				hasty.Go(func() { _ = call(within(t, time.Millisecond), c, fmt.Sprint("hasty", i)) })
			}
			hasty.Wait()
			if err := call(within(t, unhurried), c, "patient"); err != nil {
				t.Log(err)
			}
		}
		if got := c.seeds[0].counts.hangs.Load() - before; got > most {
			return fmt.Errorf("the server was left alone %d times in %d bursts, want at most %d", got, bursts, most)
		}
		return nil
	})
}

// Callers must not connect, since others would have to wait for them.
func TestOnlyTheConnectorDials(t *testing.T) {
	n, err := newServer(freeAddr(t), redisurl.Login{}, 0, serverOptions{
		dialer: dialer{network: "tcp", timeout: time.Second}, hangTimeout: time.Second, log: (&logbook.Book{}).Logger(),
		timing: timing{clock: clock.System},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer n.client.Close()
	conn, err := n.dial(context.Background(), n.addr, &net.Dialer{}, nil)
	if conn != nil || !errors.Is(err, errNotConnected) {
		t.Errorf("got %v, %v; want %v", conn, err, errNotConnected)
	}
	result := n.client.Do(within(t, time.Second), n.client.B().Ping().Build())
	if err := result.Error(); !errors.Is(err, errNotConnected) {
		t.Errorf("got %v", err)
	}
}
