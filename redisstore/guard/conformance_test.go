package guard

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

func guarded(t testing.TB, now func() time.Time, o Options) (*Guard, *memstore.Store) {
	store, err := memstore.New(memstore.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	o.Now = now
	o.Local = store // not used
	o.Deadline = time.Minute
	g, err := New(store, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return g, store
}

var suite = limittest.Options{Steps: 500 / racing.Slower, Goroutines: 1000 / racing.Slower}

func TestGuardIsALimiter(t *testing.T) {
	t.Parallel()
	limittest.RunOptions(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
		g, _ := guarded(t, now, Options{DenyCache: -1})
		return g
	}, suite)
}

func TestGuardThatRemembersDenialsIsALimiter(t *testing.T) {
	t.Parallel()
	limittest.RunOptions(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
		g, store := guarded(t, now, Options{})
		return completed{g, store}
	}, suite)
}

// A completed guard adds to a remembered denial what the guard does not know, so that the suite can compare
// the rest: the decisions about the other checks of a TakeAll, and the current Remaining under a limit that the
// denial cannot predict.
type completed struct {
	*Guard
	store headgate.Limiter
}

func (l completed) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	d, err := l.Guard.Take(ctx, c)
	if err == nil {
		err = l.complete(ctx, c, &d)
	}
	return d, err
}

func (l completed) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	before := len(dst)
	dst, err := l.Guard.TakeAll(ctx, checks, dst)
	if err != nil {
		return dst, err
	}
	for i := range dst[before:] {
		if err := l.complete(ctx, checks[i], &dst[before+i]); err != nil {
			return dst[:before], err
		}
	}
	return dst, nil
}

func (l completed) complete(ctx context.Context, c headgate.Check, d *headgate.Decision) error {
	tells := c.Limit.Algorithm == headgate.FixedWindow ||
		c.Limit.Algorithm <= headgate.GCRA && c.Limit.Period.Microseconds()%c.Limit.Count == 0
	if d.Limit != 0 && (d.Allowed || tells) {
		return nil
	}
	look := c
	look.Cost = 0
	now, err := l.store.Peek(ctx, look)
	if err != nil {
		return err
	}
	switch {
	case d.Limit != 0:
		d.Remaining = now.Remaining
	case now.Allowed && now.Remaining >= c.Cost:
		*d = now
	default: // which denies
		*d, err = l.store.Take(ctx, c)
	}
	return err
}
