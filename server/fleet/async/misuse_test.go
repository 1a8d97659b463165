package async

import (
	"context"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

func TestMisuseIsSafe(t *testing.T) {
	limittest.RunMisuse(t, func(t testing.TB) (headgate.Limiter, func() error) {
		l, err := New(fleet.LedgerOptions{}, fleettest.NewBoard(0).Node("a"), Options{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		return l, func() error { return l.Close(context.Background()) }
	})
}

func TestMisuseOfALocalIsSafe(t *testing.T) {
	limittest.RunMisuse(t, func(t testing.TB) (headgate.Limiter, func() error) {
		l, err := NewLocal(fleet.LedgerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return l, l.Close
	})
}
