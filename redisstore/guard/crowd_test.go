package guard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
)

// The bar: 1,000 callers of one key cause no more store calls than the store admits, plus two in the time for
// which a denial holds.
func TestThousandCallersOfADeniedKeyMakeFewCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit    string
		interval time.Duration // for which a denial holds
		all      bool          // by TakeAll
	}{
		{limit: "100/h", interval: time.Second},
		{limit: "1/h", interval: time.Second},
		{limit: "5000/h", interval: 720 * time.Millisecond},
		{limit: "10/s", interval: time.Second}, // once it is known, a unit that comes back is asked for just when it does
		{limit: "100/s burst 10", interval: time.Second},
		{limit: "7/s", interval: 142 * time.Millisecond},
		{limit: "50/s fixed-window", interval: time.Second},
		{limit: "100/h sliding-window", interval: time.Second},
		{limit: "100/h sliding-log", interval: time.Second},
		{limit: "50 concurrent", interval: 10 * time.Millisecond},
		{limit: "100/h", interval: time.Second, all: true},
		{limit: "10/s", interval: time.Second, all: true},
	} {
		t.Run(strings.ReplaceAll(fmt.Sprintf("%s %v", tt.limit, tt.all), "/", " per "), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFake(t, nil)
				f.breaks("a", fault{slow: 300 * time.Microsecond})
				g := newGuard(t, f, Options{})
				c := check("a/1", tt.limit)
				const callers = 1000
				lasts := 3 * time.Second
				if racing.Slower > 1 {
					lasts /= 2
				}
				var admitted atomic.Int64
				var all sync.WaitGroup
				start := time.Now()
				for i := range callers {
					all.Go(func() {
						rng := rand.New(rand.NewPCG(1, uint64(i)))
						for time.Since(start) < lasts {
							var ok bool
							if tt.all {
								ok = headgate.Allowed(takeAll(t, g, c, check(fmt.Sprint("a/own", i), "1000000/s")))
							} else {
								ok = take(t, g, c).Allowed
							}
							if ok {
								admitted.Add(1)
							}
							time.Sleep(time.Duration(rng.IntN(40_000*racing.Slower)) * time.Microsecond)
						}
					})
				}
				all.Wait()
				calls, most := f.calls.Load(), admitted.Load()+2*int64(lasts/tt.interval+1)
				t.Logf("%s: %d calls, %d admitted, bar %d; %+v", tt.limit, calls, admitted.Load(), most, g.Stats())
				if calls > most {
					t.Errorf("%s: %d calls, want %d at most: %d admitted and 2 an interval", tt.limit, calls, most, admitted.Load())
				}
				if g.Stats().Open > 0 || g.Stats().WaitsSkipped > 0 {
					t.Errorf("%s: got %+v, want none degraded and none without a wait", tt.limit, g.Stats())
				}
			})
		})
	}
}

func TestUnitsInFlightStayBounded(t *testing.T) {
	for _, tt := range []struct {
		cost, most int64
	}{{1, 12}, {3, 4}, {5, 2}, {12, 1}, {13, 1}} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			f.breaks("a", fault{slow: time.Millisecond})
			g := newGuard(t, f, Options{})
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() { take(t, g, costing(check("a/1", "12/h"), tt.cost)) })
			}
			all.Wait()
			if got := f.most.Load(); got != tt.most {
				t.Errorf("cost %d of 12: %d calls at once, want %d", tt.cost, got, tt.most)
			}
			if got := f.calls.Load(); got > tt.most+1 {
				t.Errorf("cost %d of 12: %d calls, want %d", tt.cost, got, tt.most+1)
			}
		})
	}
}

func TestUnitsInFlightStayBoundedAfterAPause(t *testing.T) {
	// A call takes a millisecond, in which a unit of 1000/s comes back: when the first of ten returns, two may go.
	for limit, most := range map[string]int64{"1000/s burst 10": 11, "1000/s gcra burst 10": 11, "10/s fixed-window": 10} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			f.breaks("a", fault{slow: time.Millisecond})
			g := newGuard(t, f, Options{})
			for range 3 {
				time.Sleep(1500 * time.Millisecond)
				f.most.Store(0)
				var all sync.WaitGroup
				for range 500 {
					all.Go(func() {
						if got := took(func() { take(t, g, check("a/1", limit)) }); got > 4*time.Millisecond {
							t.Errorf("%s: took %v, want to hear of a denial soon", limit, got)
						}
					})
				}
				all.Wait()
				if got := f.most.Load(); got > most {
					t.Errorf("%s: %d calls at once, want at most %d", limit, got, most)
				}
			}
		})
	}
}

// A client within its limit must not be slowed down, whatever the burst.
func TestSteadyCallersDoNotWait(t *testing.T) {
	for _, limit := range []string{"1000/s burst 1", "1000/s", "1000/s gcra burst 2"} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			f.breaks("a", fault{slow: 5 * time.Millisecond})
			g := newGuard(t, f, Options{})
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() {
					if got := took(func() {
						if d := take(t, g, check("a/1", limit)); !d.Allowed || d.Degraded {
							t.Errorf("%s: got %+v, want allowed", limit, d)
						}
					}); got != 5*time.Millisecond {
						t.Errorf("%s: took %v, want the store's 5 ms", limit, got)
					}
				})
				time.Sleep(time.Millisecond)
			}
			all.Wait()
		})
	}
}

// The guard admits as much as the store alone, however hot the key.
func TestHotKeyGetsAllOfItsLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"1000/s burst 10", "200/s", "500/s sliding-window", "300/s burst 3"} {
		inBubble(t, func(t *testing.T) {
			f := newFake(t, nil)
			f.breaks("a", fault{slow: 500 * time.Microsecond})
			g := newGuard(t, f, Options{})
			var admitted atomic.Int64
			var all sync.WaitGroup
			start := time.Now()
			callers, lasts := 20, time.Second
			if racing.Slower == 1 {
				callers, lasts = 50, 2*lasts
			}
			for range callers {
				all.Go(func() {
					for time.Since(start) < lasts {
						if take(t, g, check("a/1", limit)).Allowed {
							admitted.Add(1)
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
			all.Wait()
			l := headgate.MustParseLimit(limit)
			want := l.Count * int64(lasts/time.Second)
			t.Logf("%s: %d admitted of %d with %d calls", limit, admitted.Load(), want, f.calls.Load())
			if got := admitted.Load(); got < want*9/10 || got > want+l.Capacity() {
				t.Errorf("%s: %d admitted in %v, want %d", limit, got, lasts, want)
			}
		})
	}
}

// A jitteryStore responds after a random time, and decides somewhere within it.
type jitteryStore struct {
	*fakeStore
	mu  *sync.Mutex
	rng *rand.Rand
}

func (s jitteryStore) pause() {
	s.mu.Lock()
	d := 100*time.Microsecond + time.Duration(s.rng.ExpFloat64()*float64(time.Millisecond))
	if s.rng.IntN(20) == 0 {
		d += 10 * time.Millisecond
	}
	s.mu.Unlock()
	time.Sleep(d)
}

func (s jitteryStore) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	s.pause()
	d, err := s.fakeStore.Take(ctx, c)
	s.pause()
	return d, err
}

// With varying response times it is not exactly known when a client may pass again. Callers also
// come in bursts.
func TestJitterDoesNotRushTheStore(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"10/s", "10/s burst 3", "10/s gcra burst 1", "1/s", "5/s fixed-window"} {
		inBubble(t, func(t *testing.T) {
			f := jitteryStore{newFake(t, nil), new(sync.Mutex), rand.New(rand.NewPCG(1, 2))}
			g := newGuard(t, f, Options{Deadline: time.Second})
			c := check("a/1", limit)
			for take(t, g, c).Allowed {
			}
			f.calls.Store(0)
			const callers, lasts = 300, 10 * time.Second
			var admitted atomic.Int64
			var all sync.WaitGroup
			start := time.Now()
			for i := range callers {
				rng := rand.New(rand.NewPCG(1, uint64(i)))
				all.Go(func() {
					for time.Since(start) < lasts {
						if take(t, g, c).Allowed {
							admitted.Add(1)
						}
						time.Sleep(time.Duration(rng.IntN(40_000*racing.Slower)) * time.Microsecond)
						if time.Since(start)%time.Second > 700*time.Millisecond { // the machine is busy
							time.Sleep(time.Second - time.Since(start)%time.Second)
						}
					}
				})
			}
			all.Wait()
			calls, most := f.calls.Load(), admitted.Load()+2*int64(lasts/time.Second)
			t.Logf("%s: %d calls, %d admitted, bar %d; %+v", limit, calls, admitted.Load(), most, g.Stats())
			if calls > most {
				t.Errorf("%s: %d calls, want %d at most: %d admitted and 2 a second", limit, calls, most, admitted.Load())
			}
			want := c.Limit.Count * int64(lasts/time.Second)
			if got := admitted.Load(); got < want*6/10 || got > want+c.Limit.Capacity() { // not all of it keeps while nobody comes
				t.Errorf("%s: %d admitted, want about %d", limit, got, want)
			}
		})
	}
}

// wantNothingLeft checks that no call is in flight and no caller waits.
func wantNothingLeft(t testing.TB, g *Guard) {
	t.Helper()
	if !g.gate.Idle() {
		t.Error("calls or waiters were left behind")
	}
}

func TestTakeAllsWithCommonKeysDoNotDeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		f.breaks("a", fault{slow: time.Millisecond})
		g := newGuard(t, f, Options{})
		x, y, z := check("a/x", "100/h burst 1"), check("a/y", "100/h burst 1"), check("a/z", "100/h burst 1")
		orders := [][]headgate.Check{{x, y, z}, {y, z, x}, {z, x, y}, {z, y, x}, {x, z}, {y, x}}
		var all sync.WaitGroup
		var passed atomic.Int64
		for i := range 300 {
			all.Go(func() {
				if got := took(func() {
					ds := takeAll(t, g, orders[i%len(orders)]...)
					if headgate.Allowed(ds) {
						passed.Add(1)
					}
				}); got > DefaultDeadline {
					t.Errorf("took %v", got)
				}
			})
		}
		all.Wait()
		if got := passed.Load(); got != 1 {
			t.Errorf("%d passed, want 1: every two share a key", got)
		}
		wantNothingLeft(t, g)
		t.Logf("%d calls", f.calls.Load())
	})
}

// panics is a store with a bug.
type panics struct{ *fakeStore }

func (panics) Take(context.Context, headgate.Check) (headgate.Decision, error) { panic("bug") }

func TestPanicOfTheStoreLeavesNoTurnBehind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFake(t, nil)
		g := newGuard(t, panics{f}, Options{})
		c := check("a/1", "1/h")
		for range 3 {
			func() {
				defer func() { _ = recover() }()
				_, _ = g.Take(context.Background(), c)
			}()
		}
		g.inner = f
		if got := took(func() { take(t, g, c) }); got != 0 {
			t.Errorf("took %v, want no time", got)
		}
	})
}
