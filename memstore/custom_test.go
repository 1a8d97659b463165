package memstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

const customWindow = headgate.FirstCustom + 7

// alignedWindow is fixed-window, written as a program would. Its numbers are the latest time, and the units then.
type alignedWindow struct{}

func (alignedWindow) Used(l headgate.Limit, s algorithm.Numbers, now int64) int64 {
	if period := l.Period.Microseconds(); now/period != s[0]/period {
		return 0
	}
	return s[1]
}

func (w alignedWindow) Take(l headgate.Limit, s algorithm.Numbers, now, n int64) algorithm.Numbers {
	return algorithm.Numbers{now, w.Used(l, s, now) + n}
}

func (w alignedWindow) Give(l headgate.Limit, s algorithm.Numbers, now, n, taken int64) algorithm.Numbers {
	used, period := w.Used(l, s, now), l.Period.Microseconds()
	if taken/period == now/period {
		used = max(0, used-n)
	}
	return algorithm.Numbers{now, used}
}

func newCustomStore(t testing.TB, now func() time.Time) *memstore.Store {
	t.Helper()
	store, err := memstore.New(memstore.Options{
		Now: now, Algorithms: map[headgate.Algorithm]algorithm.Custom{customWindow: alignedWindow{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func TestCustomAlgorithmKeepsItsPromises(t *testing.T) {
	limittest.RunAlgorithm(t, alignedWindow{})
}

// A custom algorithm that is defined like fixed-window decides like it, through every method of a store, and when the
// limit of a key changes.
func TestCustomAlgorithmDecidesLikeABuiltInOne(t *testing.T) {
	t.Run("clock goes back", func(t *testing.T) { compareWithBuiltIn(t, 5*time.Second, false) })
	t.Run("limit changes", func(t *testing.T) { compareWithBuiltIn(t, 0, true) })
}

func compareWithBuiltIn(t *testing.T, back time.Duration, changes bool) {
	clock := limittest.NewClock()
	custom, builtIn := newCustomStore(t, clock.Now), newCustomStore(t, clock.Now)
	rng := rand.New(rand.NewPCG(1, 2))
	limits := []headgate.Limit{
		{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Minute},
		{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Hour},
		{Algorithm: headgate.FixedWindow, Count: 3, Period: time.Hour},
		{Algorithm: headgate.SlidingLog, Count: 7, Period: time.Hour},
		headgate.PerMinute(5),
	}
	limit := limits[0]
	var receipts []headgate.Receipt
	for range 20_000 {
		clock.Advance(time.Duration(rng.Int64N(int64(40*time.Second)) - int64(back)).Truncate(time.Microsecond))
		if changes && rng.IntN(20) == 0 {
			limit, receipts = limits[rng.IntN(len(limits))], nil
		}
		c := headgate.Check{Key: string('a' + rune(rng.IntN(3))), Limit: limit, Cost: 1 + rng.Int64N(4)}
		call := rng.IntN(6)
		var results [2]struct {
			ds  []headgate.Decision
			err error
		}
		for i, l := range []*memstore.Store{builtIn, custom} {
			if i == 1 && c.Limit.Algorithm == headgate.FixedWindow {
				c.Limit.Algorithm = customWindow
			}
			r, d := &results[i], headgate.Decision{}
			switch call {
			case 0:
				d, r.err = l.Peek(t.Context(), c)
			case 1:
				d, r.err = l.Charge(t.Context(), c)
			case 2:
				r.ds, r.err = l.TakeAll(t.Context(), []headgate.Check{c, {Key: "all", Limit: headgate.PerMinute(9), Cost: 1}}, nil)
			case 3:
				if len(receipts) > 0 {
					c.Key, c.Cost = "a", receipts[0].Units
					r.err = l.Give(t.Context(), c, receipts[0])
				}
			case 4:
				if c.Cost == 1 {
					r.err = l.Reset(t.Context(), c)
				}
			default:
				d, r.err = l.Take(t.Context(), c)
			}
			r.ds = append(r.ds, d)
		}
		if call == 3 && len(receipts) > 0 {
			receipts = receipts[1:]
		}
		got, want := results[1], results[0]
		for i := range want.ds {
			if back > 0 { // fixed-window measures ResetAfter from the latest time, and forgets that of an unused key
				got.ds[i].ResetAfter, want.ds[i].ResetAfter = 0, 0
				got.ds[i].Receipt.At, want.ds[i].Receipt.At = 0, 0
			}
			if got.err != nil || want.err != nil || got.ds[i] != want.ds[i] {
				t.Fatalf("call %d of %v at %v: got %+v, %v\nwant %+v, %v", call, c, clock.Now(), got.ds, got.err, want.ds, want.err)
			}
		}
		if d := want.ds[0]; call == 5 && back == 0 && d.Allowed && c.Key == "a" {
			receipts = append(receipts, d.Receipt)
		}
	}
}

func TestCustomAlgorithmIsForStoresThatHaveIt(t *testing.T) {
	limit := headgate.Limit{Algorithm: customWindow, Count: 2, Period: time.Minute}
	c := headgate.Check{Key: "alice", Limit: limit, Cost: 1}
	without, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	if _, err := without.Take(t.Context(), c); !errors.Is(err, headgate.ErrInvalidLimit) {
		t.Errorf("a store without it: got %v, want %v", err, headgate.ErrInvalidLimit)
	}
	if _, err := headgate.Bind(without, limit); !errors.Is(err, headgate.ErrInvalidLimit) {
		t.Errorf("Bind to a store without it: got %v, want %v", err, headgate.ErrInvalidLimit)
	}
	with := newCustomStore(t, time.Now)
	for misuse, bad := range map[string]headgate.Check{
		"no cost":      {Key: "alice", Limit: limit},
		"no key":       {Limit: limit, Cost: 1},
		"no count":     {Key: "alice", Limit: headgate.Limit{Algorithm: customWindow, Period: time.Minute}, Cost: 1},
		"no period":    {Key: "alice", Limit: headgate.Limit{Algorithm: customWindow, Count: 1}, Cost: 1},
		"sub-buckets":  {Key: "alice", Limit: headgate.Limit{Algorithm: customWindow, Count: 1, Period: time.Minute, Buckets: 2}, Cost: 1},
		"other number": {Key: "alice", Limit: headgate.Limit{Algorithm: customWindow + 1, Count: 1, Period: time.Minute}, Cost: 1},
	} {
		var input *headgate.InputError
		if _, err := with.Take(t.Context(), bad); !errors.As(err, &input) {
			t.Errorf("%s: got %v, want an InputError", misuse, err)
		}
	}
	bound := headgate.MustBind(with, limit)
	for i, want := range []bool{true, true, false} {
		if got := bound.Allow("bob"); got != want {
			t.Errorf("Allow number %d: got %v, want %v", i, got, want)
		}
	}
	if bound.Allow("") || bound.AllowN("eve", 0) {
		t.Error("an empty key or a cost of 0 passes, want neither")
	}
	if _, err := bound.Delay(t.Context(), "bob", 1); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("Delay: got %v, want %v", err, headgate.ErrUnsupported)
	}
	if d, err := bound.Take(context.Background(), "bob", 3); err != nil || d.RetryAfter != headgate.Never {
		t.Errorf("more than the limit: got %+v, %v, want Never", d, err)
	}
}

func TestCustomAlgorithmsAreValidated(t *testing.T) {
	for name, algorithms := range map[string]map[headgate.Algorithm]algorithm.Custom{
		"a built-in number": {headgate.GCRA: alignedWindow{}},
		"nil":               {headgate.FirstCustom: nil},
	} {
		if store, err := memstore.New(memstore.Options{Algorithms: algorithms}); err == nil {
			store.Close()
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestCustomAlgorithmAllocatesNothing(t *testing.T) {
	bound := headgate.MustBind(newCustomStore(t, time.Now), headgate.Limit{Algorithm: customWindow, Count: 500, Period: time.Hour})
	bound.Allow("alice")
	if got := testing.AllocsPerRun(1000, func() { bound.Allow("alice") }); got != 0 {
		t.Errorf("got %v allocations a decision, want none", got)
	}
}
