package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate/memstore"
)

func TestEachPlanHasItsLimit(t *testing.T) {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	h := handler(store)
	for user, want := range map[string]int{"alice": http.StatusOK, "monitoring": http.StatusOK, "bob": http.StatusTooManyRequests} {
		var got int
		for range 3 {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("X-User", user)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			got = w.Code
		}
		if got != want {
			t.Errorf("the third request of %s: got %d, want %d", user, got, want)
		}
	}
}
