package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/internal/redisurl"
)

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
		var cut sync.WaitGroup
		cut.Go(func() {
			time.Sleep(time.Millisecond)
			proxy.Cut()
			proxy.Heal()
		})
		for range 20 {
			if err := incr(within(t, time.Second)); err == nil || errors.Is(err, ErrNoResponse) {
				sent++
			}
		}
		cut.Wait()
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
	if racing.Enabled {
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

func TestAbandonedCallsAreAHangOnlyInSilence(t *testing.T) {
	for _, tt := range []struct {
		name      string
		abandoned int
		silence   time.Duration
		reads     int64 // of replies while calls are abandoned
		hangs     bool
	}{
		{"few calls", hangCalls - 1, time.Second, 0, false},
		{"many calls", hangCalls, minHangSilence, 0, true},
		{"many calls in a moment", hangCalls, minHangSilence - 1, 0, false},
		{"many calls while replies arrive", hangCalls, time.Second, 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, err := newServer("localhost:1", redisurl.Login{}, 0, serverOptions{
				dialer: dialer{network: "tcp", timeout: time.Second}, hangTimeout: time.Second, log: slog.New(slog.DiscardHandler),
				timing: timing{clock: clock.System},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.client.Close()
			s.setStatus(&status{connected: true})
			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			var calls []*status
			for range tt.abandoned {
				st, err := s.enter(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				calls = append(calls, st)
			}
			time.Sleep(tt.silence)
			for i, st := range calls {
				_ = s.leaveFailed(canceled, st, canceled.Err())
				if i == 0 {
					s.replies.reads.Add(tt.reads)
				}
			}
			if s.Connected() == tt.hangs || s.Counts().Hangs > 0 != tt.hangs {
				t.Errorf("%s: connected %v, %d hangs; want it to hang: %v", tt.name, s.Connected(), s.Counts().Hangs, tt.hangs)
			}
		})
	}
}

func TestSoakShortDeadlinesDoNotAffectOthers(t *testing.T) {
	soak(t)
	proxy := redistest.NewProxy(t, redistest.Standalone(t, redistest.Options{}).Addr())
	proxy.SetDelay(2 * time.Millisecond)
	c := connect(t, "redis://"+proxy.Addr(), Options{})
	stop := make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	defer close(stop)
	for i := range 100 {
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
		t.Errorf("%d of %d patient calls failed, want at most %d", failed, calls, most)
	}
}

// More calls than count as a hang are abandoned before the server can have responded to any of them.
func TestSoakBurstsOfShortDeadlinesDoNotAffectOthers(t *testing.T) {
	soak(t)
	proxy := redistest.NewProxy(t, redistest.Standalone(t, redistest.Options{}).Addr())
	c := connect(t, "redis://"+proxy.Addr(), Options{})
	if err := call(within(t, unhurried), c, "patient"); err != nil {
		t.Fatal(err)
	}
	proxy.SetDelay(4 * time.Millisecond)
	const bursts = 20
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
	if got := c.seeds[0].counts.hangs.Load(); got > bursts {
		t.Errorf("the server counted as hung %d times in %d bursts, want at most once in each", got, bursts)
	}
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
