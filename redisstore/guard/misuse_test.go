package guard

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

func TestMisuseIsSafe(t *testing.T) {
	t.Parallel()
	limittest.RunMisuse(t, func(t testing.TB) (headgate.Limiter, func() error) {
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := New(store, Options{Deadline: time.Minute, OnEvent: func(Event) {}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return g, g.Close
	})
}

func TestBindRefusesACustomAlgorithm(t *testing.T) {
	t.Parallel()
	store := memstore.MustNew(memstore.Options{})
	t.Cleanup(func() { store.Close() })
	g := MustNew(store, Options{OnEvent: func(Event) {}})
	t.Cleanup(func() { _ = g.Close() })
	limit := headgate.Limit{Algorithm: headgate.FirstCustom, Count: 1, Period: time.Hour}
	if _, err := headgate.Bind(g, limit); !errors.Is(err, headgate.ErrInvalidLimit) {
		t.Errorf("got %v, want %v", err, headgate.ErrInvalidLimit)
	}
}
