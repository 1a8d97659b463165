package region

import (
	"context"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

func TestMisuseIsSafe(t *testing.T) {
	limittest.RunMisuse(t, func(t testing.TB) (headgate.Limiter, func() error) {
		store := memstore.MustNew(memstore.Options{})
		l, err := New(fleet.LedgerOptions{}, store, newTotals(), fleettest.NewBoard(0).Node("eu"), Options{Region: "eu", Node: "a"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return l, func() error { return l.Close(context.Background()) }
	})
}
