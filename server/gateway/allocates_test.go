//go:build !race

package gateway

import (
	"net/http"
	"testing"
)

// For a rejected request the gateway allocates only the id.
func TestRejectionAllocatesOnlyID(t *testing.T) {
	g := create(t, rejecting())
	w, r := newNullFront(), benchRequest()
	serve := func() {
		clear(w.header)
		g.ServeHTTP(w, r)
	}
	serve()
	if got := testing.AllocsPerRun(1000, serve); got > 1 {
		t.Errorf("%v allocations, want 1", got)
	}
	if w.status != http.StatusTooManyRequests {
		t.Errorf("status %d, want 429", w.status)
	}
}
