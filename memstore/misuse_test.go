package memstore_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

func TestMisuseIsSafe(t *testing.T) {
	limittest.RunMisuse(t, func(t testing.TB) (headgate.Limiter, func() error) {
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return store, store.Close
	})
}

func TestMisuseOfALimiterWithoutClose(t *testing.T) {
	limittest.RunMisuse(t, func(t testing.TB) (headgate.Limiter, func() error) {
		store := memstore.MustNew(memstore.Options{})
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return store, nil
	})
}
