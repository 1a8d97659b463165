package main

import (
	"net/http"
	"testing"

	"github.com/headgate/headgate/internal/exampletest"
	"github.com/headgate/headgate/memstore"
)

func TestReportsAreLimitedForEachKey(t *testing.T) {
	exampletest.Reports(t, func(store *memstore.Store, rules string) (http.Handler, error) {
		limit, err := newLimit(store, rules)
		if err != nil {
			return nil, err
		}
		return routes(limit), nil
	})
}
