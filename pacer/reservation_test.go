package pacer

import (
	"context"
	"errors"
	"math"
	"math/big"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestReservationsPromiseWhenPermitsAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBursty(t, BurstyOptions{Rate: PerSecond(10)})
		first, second, third := b.Reserve(5), b.Reserve(1), b.Reserve(1)
		for i, c := range []struct {
			r    Reservation
			want time.Duration
		}{{first, 0}, {second, 500 * ms}, {third, 600 * ms}} {
			if got := c.r.Delay(); !c.r.OK() || c.r.Err() != nil || got != c.want {
				t.Errorf("reservation %d: OK %v, Err %v, delay %v, want true, nil, %v", i+1, c.r.OK(), c.r.Err(), got, c.want)
			}
		}
		time.Sleep(550 * ms)
		if got, want := second.Delay(), time.Duration(0); got != want {
			t.Errorf("50 ms after its time: delay %v, want %v", got, want)
		}
		if got, want := third.Delay(), 50*ms; got != want {
			t.Errorf("50 ms before its time: delay %v, want %v", got, want)
		}
	})
}

func TestRefusedReservationsSayWhy(t *testing.T) {
	b := newBursty(t, BurstyOptions{Rate: Rate{1, time.Hour}})
	for _, c := range []struct {
		name string
		r    Reservation
		want error
	}{
		{"the zero Reservation", Reservation{}, ErrUninitialized},
		{"of a zero Bursty", new(Bursty).Reserve(1), ErrUninitialized},
		{"of a zero WarmingUp", new(WarmingUp).Reserve(1), ErrUninitialized},
		{"of none", b.Reserve(0), ErrInvalidCount},
		{"of fewer than none", b.Reserve(-1), ErrInvalidCount},
		{"of more than there is time for", b.Reserve(math.MaxInt64), ErrNever},
	} {
		if c.r.OK() || !errors.Is(c.r.Err(), c.want) || c.r.Delay() != math.MaxInt64 {
			t.Errorf("%s: OK %v, Err %v, Delay %v, want false, %v, the longest", c.name, c.r.OK(), c.r.Err(), c.r.Delay(), c.want)
		}
		c.r.Cancel()
	}
	if r := b.Reserve(1); !r.OK() || r.Delay() != 0 {
		t.Errorf("after refusals: OK %v, delay %v, want true, 0", r.OK(), r.Delay())
	}
}

func TestCancelGivesBackWhatWasNotUsed(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, b *Bursty)
		want time.Duration // of the next reservation
	}{
		{"the last of them", func(_ *testing.T, b *Bursty) {
			b.Reserve(10)
			b.Reserve(20).Cancel()
		}, time.Second},
		{"all of them, the last one first", func(_ *testing.T, b *Bursty) {
			b.Reserve(10)
			second, third := b.Reserve(20), b.Reserve(30)
			third.Cancel()
			second.Cancel()
		}, time.Second},
		{"all of them, the first one first", func(_ *testing.T, b *Bursty) {
			b.Reserve(10)
			second, third := b.Reserve(20), b.Reserve(30)
			second.Cancel()
			third.Cancel()
		}, time.Second},
		{"one in the middle is worth a burst at most, as the later one keeps its time", func(_ *testing.T, b *Bursty) {
			b.Reserve(10)
			second := b.Reserve(20) // at 1 s
			b.Reserve(30)           // at 3 s; without the second, two idle seconds before it save 10
			second.Cancel()
		}, 5 * time.Second},
		{"one in the middle and then the last", func(t *testing.T, b *Bursty) {
			b.Reserve(10)
			second := b.Reserve(20)
			b.Reserve(30)
			fourth := b.Reserve(1)
			second.Cancel()
			if b.TryAcquire(1, 0) {
				t.Error("TryAcquire = true, want false")
			}
			fourth.Cancel()
		}, 5 * time.Second},
		{"a second Cancel gives nothing", func(_ *testing.T, b *Bursty) {
			b.Reserve(10)
			second := b.Reserve(20)
			again := second
			second.Cancel()
			second.Cancel()
			again.Cancel()
		}, time.Second},
		{"one whose time has come gives nothing", func(_ *testing.T, b *Bursty) {
			b.Reserve(10)
			second := b.Reserve(20)
			time.Sleep(time.Second)
			second.Cancel()
		}, 2 * time.Second},
		{"nor does one that was due at once", func(_ *testing.T, b *Bursty) {
			b.Reserve(10).Cancel()
		}, time.Second},
		{"those who reserve after a Cancel gain and lose nothing by a later one", func(t *testing.T, b *Bursty) {
			b.Reserve(10)
			second, third := b.Reserve(20), b.Reserve(30)
			third.Cancel()
			fourth := b.Reserve(1) // at 3 s
			second.Cancel()
			if got, want := fourth.Delay(), 3*time.Second; got != want {
				t.Errorf("the fourth waits %v, want %v", got, want)
			}
			fourth.Cancel()
		}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBursty(t, BurstyOptions{Rate: PerSecond(10)})
				c.do(t, b)
				if got := b.Reserve(1).Delay(); got != c.want {
					t.Errorf("the next reservation waits %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestCancelOfAWarmingUpReservationKeepsItAsWarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWarmingUp(t, WarmingUpOptions{Rate: PerSecond(2), WarmUp: 4 * time.Second})
		w.Reserve(1)
		second := w.Reserve(7) // takes all that is stored
		third := w.Reserve(1)
		third.Cancel()
		second.Cancel()
		// As in the steps from cold to warm.
		for i, want := range []time.Duration{1375 * ms, 2500 * ms, 3375 * ms, 4000 * ms, 4500 * ms} {
			if got := w.Reserve(1).Delay(); got != want {
				t.Errorf("permit %d waits %v, want %v", i+2, got, want)
			}
		}
	})
}

// Those who wait move up when a reservation is cancelled, but never get ahead of one that is not.
func TestWaitersAndReservationsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBursty(t, BurstyOptions{Rate: PerSecond(10), MaxBurst: NoBurst})
		start := time.Now()
		b.Reserve(10)
		second := b.Reserve(20)
		var wg sync.WaitGroup
		wait := func(n int64, want time.Duration) {
			wg.Go(func() {
				if _, err := b.Acquire(context.Background(), n); err != nil {
					t.Errorf("acquire %d: %v", n, err)
				}
				if got := time.Since(start); got != want {
					t.Errorf("acquire %d returns at %v, want %v", n, got, want)
				}
			})
			synctest.Wait()
		}
		wait(5, 1000*ms) // was to go at 3 s, after the second reservation
		third := b.Reserve(1)
		if got, want := third.Delay(), 3500*ms; got != want {
			t.Errorf("the third reservation waits %v, want %v", got, want)
		}
		wait(1, 3600*ms)
		time.Sleep(100 * ms)
		second.Cancel()
		if got, want := third.Delay(), 3400*ms; got != want {
			t.Errorf("after the cancellation the third reservation waits %v, want %v", got, want)
		}
		wg.Wait()
	})
}

// ledger is an independent model of a Bursty pacer with reservations, in exact fractions: it remembers every one of
// them and works everything out from the beginning each time.
type ledger struct {
	rate, burst *big.Rat // permits per nanosecond, permits
	entries     []ledgerEntry
}

type ledgerEntry struct{ at, n int64 }

// due returns when a request at now may go.
func (l *ledger) due(now int64) int64 {
	level, last := new(big.Rat), int64(0)
	grow := func(to int64) {
		level.Add(level, new(big.Rat).Mul(l.rate, new(big.Rat).SetInt64(to-last)))
		if level.Cmp(l.burst) > 0 {
			level.Set(l.burst)
		}
		last = to
	}
	for _, e := range l.entries {
		grow(e.at)
		level.Sub(level, new(big.Rat).SetInt64(e.n))
	}
	if now > last {
		grow(now)
	}
	if level.Sign() >= 0 {
		return last
	}
	wait := new(big.Rat).Quo(level.Neg(level), l.rate)
	ns := new(big.Int).Add(wait.Num(), wait.Denom())
	ns.Sub(ns, big.NewInt(1)).Div(ns, wait.Denom())
	return last + ns.Int64()
}

func TestReservationsAgreeWithALedger(t *testing.T) {
	for _, r := range []Rate{PerSecond(10), PerSecond(7), PerSecond(300), {11, 13 * time.Minute}} {
		for _, burst := range []int64{1, 5, 40} {
			t.Run(r.String()+" burst "+decimal(burst), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rng := seeded(t, 31)
					b := newBursty(t, BurstyOptions{Rate: r, MaxBurst: burst})
					model := ledger{rate: big.NewRat(r.Permits, int64(r.Per)), burst: new(big.Rat).SetInt64(burst)}
					start := time.Now()
					interval := int64(r.Per) / r.Permits
					type held struct {
						Reservation
						entry ledgerEntry
					}
					var all []held
					for i := range 200 {
						switch rng.IntN(4) {
						case 0:
							time.Sleep(time.Duration(rng.Int64N(20 * interval)))
						case 1:
							if len(all) == 0 {
								continue
							}
							k := rng.IntN(len(all))
							all[k].Cancel()
							if int64(time.Since(start)) < all[k].entry.at {
								for j, e := range model.entries {
									if e == all[k].entry {
										model.entries = append(model.entries[:j], model.entries[j+1:]...)
										break
									}
								}
								all = append(all[:k], all[k+1:]...)
							}
						default:
							n := 1 + rng.Int64N(12)
							now := int64(time.Since(start))
							want := model.due(now)
							got := b.Reserve(n)
							if at := now + int64(got.Delay()); at != want {
								t.Fatalf("operation %d: %d permits at %d are due at %d, want %d", i, n, now, at, want)
							}
							entry := ledgerEntry{want, n}
							model.entries = append(model.entries, entry)
							all = append(all, held{got, entry})
						}
					}
				})
			})
		}
	}
}

// Callers who come in order and give up at any time are granted as if those who gave up had never come.
func TestWaitersAgreeWithALedger(t *testing.T) {
	for _, r := range []Rate{PerSecond(10), PerSecond(7), PerSecond(300)} {
		t.Run(r.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := seeded(t, 32)
				b := newBursty(t, BurstyOptions{Rate: r, MaxBurst: 5})
				model := ledger{rate: big.NewRat(r.Permits, int64(r.Per)), burst: big.NewRat(5, 1)}
				interval := int64(r.Per) / r.Permits
				var callers []caller
				var now int64
				gaveUp := 0
				for range 300 {
					now += 1 + rng.Int64N(8*interval)
					c := caller{at: time.Duration(now), n: 1 + rng.Int64N(8)}
					due := model.due(now)
					if rng.IntN(3) == 0 {
						c.cancel = c.at + 1 + time.Duration(rng.Int64N(30*interval))
					}
					if c.cancel > 0 && int64(c.cancel) < due {
						c.returns, c.err = c.cancel, context.Canceled
						gaveUp++
					} else {
						c.returns = time.Duration(due)
						model.entries = append(model.entries, ledgerEntry{due, c.n})
					}
					callers = append(callers, c)
				}
				play(t, b.Acquire, callers)
				if gaveUp < 10 {
					t.Errorf("%d of 300 callers gave up, want at least 10 for this to mean something", gaveUp)
				}
			})
		})
	}
}
