// Command chi shows the middleware with the router chi, whose method Use accepts it directly.
//
//	go run . &
//	for i in 1 2 3; do curl -i -H 'X-API-Key: alice' localhost:8080/api/reports/7; done
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file"
)

func main() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := newLimit(store, "rules.yaml")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Addr: ":8080", Handler: routes(limit), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// newLimit returns the middleware for the rules in a file.
func newLimit(store *memstore.Store, path string) (func(http.Handler) http.Handler, error) {
	doc, err := file.Load(path)
	if err != nil {
		return nil, err
	}
	set, err := doc.Compile()
	if err != nil {
		return nil, err
	}
	decide, err := engine.New(engine.Config{Rules: set, Store: store})
	if err != nil {
		return nil, err
	}
	return httplimit.New(httplimit.Config{Engine: decide})
}

// routes returns a handler with limits for /api and none for /healthz. Recoverer comes before the limit, so that it
// handles all panics.
func routes(limit func(http.Handler) http.Handler) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	r.Route("/api", func(r chi.Router) {
		r.Use(limit)
		r.Get("/reports/{id}", func(w http.ResponseWriter, r *http.Request) {
			if chi.URLParam(r, "id") == "0" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprintln(w, "report", chi.URLParam(r, "id"))
		})
	})
	return r
}
