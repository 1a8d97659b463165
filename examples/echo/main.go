// Command echo shows the middleware with the framework echo, which accepts net/http middleware with
// echo.WrapMiddleware. Echo does not run the middleware of a group for paths without a route. To limit all requests,
// use limit(echo.New()).
//
//	go run . &
//	for i in 1 2 3; do curl -i -H 'X-API-Key: alice' localhost:8080/api/reports/7; done
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

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

// routes returns a handler with limits for /api and none for /healthz.
func routes(limit func(http.Handler) http.Handler) http.Handler {
	e := echo.New()
	e.GET("/healthz", func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") })
	api := e.Group("/api", echo.WrapMiddleware(limit))
	api.GET("/reports/:id", func(c echo.Context) error {
		if c.Param("id") == "0" {
			return echo.NewHTTPError(http.StatusNotFound, "there is no such report") // echo responds after the return
		}
		return c.String(http.StatusOK, "report "+c.Param("id")+"\n")
	})
	return e
}
