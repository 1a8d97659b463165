package guard

import (
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
