// Command tenants shares the limits of tenants between processes through Redis, and keeps serving while Redis is unreachable.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
)

var plans = map[string]headgate.Limit{
	"acme": headgate.MustParseLimit("100/s burst 200"),
	"":     headgate.MustParseLimit("5/m"), // all other tenants
}

// open connects to Redis, behind a guard that allows requests while it is unreachable.
func open(ctx context.Context, url string) (*guard.Guard, func(), error) {
	store, err := redisstore.Open(ctx, url, redisstore.Options{StartUnreachable: true})
	if err != nil {
		return nil, nil, err
	}
	limiter, err := guard.New(store, guard.Options{})
	return limiter, func() { _ = limiter.Close(); _ = store.Close() }, err
}

func handler(limiter headgate.Limiter) http.Handler {
	limited := httplimit.By(limiter, func(r *http.Request) (string, headgate.Limit) {
		tenant := r.Header.Get("X-Tenant")
		if limit, known := plans[tenant]; known {
			return tenant, limit
		}
		return tenant, plans[""]
	})
	return limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello", r.Header.Get("X-Tenant"))
	}))
}

func main() {
	limiter, closeAll, err := open(context.Background(), os.Getenv("REDIS_URL")) // redis://localhost
	if err != nil {
		log.Print(err)
		return
	}
	defer closeAll()
	server := &http.Server{Addr: ":8080", Handler: handler(limiter), ReadHeaderTimeout: 5 * time.Second}
	log.Print(server.ListenAndServe())
}
