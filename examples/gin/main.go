// Command gin shows the middleware with the framework gin. For all requests, it can be used directly:
//
//	http.ListenAndServe(":8080", limit(gin.New()))
//
// To limit a group of routes, the function limited converts it to gin's middleware. Gin does not run the middleware of
// a group for paths without a route.
//
//	go run . &
//	for i in 1 2 3; do curl -i -H 'X-API-Key: alice' localhost:8080/api/reports/7; done
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

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
	server := &http.Server{Addr: ":8080", Handler: routes(limited(limit)), ReadHeaderTimeout: 5 * time.Second}
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
	eng, err := engine.New(engine.Config{Rules: set, Store: store})
	if err != nil {
		return nil, err
	}
	return httplimit.New(httplimit.Config{Engine: eng})
}

// routes returns a handler with limits for /api and none for /healthz.
func routes(limits ...gin.HandlerFunc) http.Handler {
	e := gin.New()
	e.Use(gin.Recovery())
	e.GET("/healthz", func(c *gin.Context) { c.String(http.StatusOK, "ok\n") })
	api := e.Group("/api", limits...)
	api.GET("/reports/:id", func(c *gin.Context) {
		if c.Param("id") == "0" {
			c.Status(http.StatusNotFound) // without a body, gin writes the header last
			return
		}
		c.String(http.StatusOK, "report "+c.Param("id")+"\n")
	})
	return e
}
