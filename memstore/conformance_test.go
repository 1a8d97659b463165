package memstore_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

func TestStoreIsALimiter(t *testing.T) {
	limittest.RunOptions(t, func(t testing.TB, now func() time.Time) headgate.Limiter {
		s, err := memstore.New(memstore.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}, limittest.Options{Steps: 500 / racing.Slower})
}
