package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

// Whatever the limits, the costs and the keys, what TakeEach says of many is what Take says of one after the other.
func TestTakeEachAnswersAsTakeDoes(t *testing.T) {
	t.Parallel()
	clock := limittest.NewClock()
	var stores [2]*memstore.Store
	for i := range stores {
		store, err := memstore.New(memstore.Options{Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		stores[i] = store
	}
	limits := []headgate.Limit{
		headgate.MustParseLimit("3/m"), headgate.MustParseLimit("5/m gcra"), headgate.MustParseLimit("3/m fixed-window"),
		headgate.MustParseLimit("3/m fixed-window staggered"), headgate.MustParseLimit("3/m sliding-window"),
		headgate.MustParseLimit("3/m sliding-log"),
		{Count: -1},
	}
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		n := random.IntN(50)
		checks, dst, errs := make([]*headgate.Check, n), make([]*headgate.Decision, n), make([]error, n)
		for i := range checks {
			kind := random.IntN(len(limits))
			checks[i] = &headgate.Check{Key: fmt.Sprint("k", kind, random.IntN(8)), Limit: limits[kind], Cost: int64(random.IntN(6) - 1)}
			if random.IntN(30) == 0 {
				checks[i].Key = ""
			}
			dst[i] = new(headgate.Decision)
		}
		stores[1].TakeEach(t.Context(), checks, dst, errs)
		for i, c := range checks {
			want, wantErr := stores[0].Take(t.Context(), *c)
			if fmt.Sprint(errs[i]) != fmt.Sprint(wantErr) || wantErr == nil && *dst[i] != want {
				t.Fatalf("round %d, %+v: got %+v, %v; want %+v, %v", round, *c, *dst[i], errs[i], want, wantErr)
			}
		}
		clock.Advance(time.Duration(random.IntN(5)) * time.Second)
	}
}

func TestTakeEachTakesNothingWhenItsContextHasEnded(t *testing.T) {
	t.Parallel()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check := &headgate.Check{Key: "k", Limit: headgate.MustParseLimit("3/h"), Cost: 1}
	errs := make([]error, 2)
	store.TakeEach(ctx, []*headgate.Check{check, check}, []*headgate.Decision{{}, {}}, errs)
	for _, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was canceled", err)
		}
	}
	if d, err := store.Take(t.Context(), *check); err != nil || d.Remaining != 2 {
		t.Errorf("got %d left, %v; want 2", d.Remaining, err)
	}
}
