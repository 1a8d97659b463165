// Command plans limits an HTTP API by the plan of each user.
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// plans are the limits by plan. Requests of a plan that is missing here are refused.
var plans = map[string]headgate.Limit{
	"free":     headgate.MustParseLimit("2/m"),
	"pro":      headgate.MustParseLimit("100/s burst 200"),
	"internal": httplimit.Exempt,
}

// planOf returns the plan of a user, as a database would.
func planOf(user string) string {
	switch user {
	case "alice":
		return "pro"
	case "monitoring":
		return "internal"
	}
	return "free"
}

func handler(limiter headgate.Limiter) http.Handler {
	limited := httplimit.By(limiter, func(r *http.Request) (string, headgate.Limit) {
		user := r.Header.Get("X-User")
		return user, plans[planOf(user)]
	})
	return limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello", r.Header.Get("X-User"))
	}))
}

func main() {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	server := &http.Server{Addr: ":8080", Handler: handler(store), ReadHeaderTimeout: 5 * time.Second}
	log.Println(server.ListenAndServe())
}
