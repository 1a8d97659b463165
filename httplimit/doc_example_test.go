package httplimit_test

import (
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// packageExample is the example of the package comment.
func packageExample(mux http.Handler) error {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	limit := httplimit.By(store, func(r *http.Request) (string, headgate.Limit) {
		return r.Header.Get("X-User"), headgate.PerSecond(10)
	})
	return http.ListenAndServe(":8080", limit(mux))
}

var _ = packageExample
