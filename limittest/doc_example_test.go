//go:build !race

package limittest_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

// The example of the package comment. memstore runs the same suite with the race detector.
func TestConformance(t *testing.T) {
	limittest.Run(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
		store := memstore.MustNew(memstore.Options{Now: now})
		t.Cleanup(func() { store.Close() })
		return store
	})
}
