package headgate_test

import (
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// packageExample is the example of the package comment.
func packageExample(w http.ResponseWriter, user string) {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	perUser := headgate.MustBind(store, headgate.PerSecond(10))
	if !perUser.Allow(user) {
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return
	}
}

var _ = packageExample
