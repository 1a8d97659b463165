package main

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
)

func TestWindowKeepsItsPromises(t *testing.T) { limittest.RunAlgorithm(t, window{}) }

func TestWindowBeginsWithTheFirstRequest(t *testing.T) {
	const script = `
case a window begins with the first request
limit 2/m custom-0
at 30s take alice 1 as first -> allow remaining=1 reset=1m
at 45s take alice 1 -> allow remaining=0 reset=45s
at 89s take alice 1 -> deny retry=1s
at 90s take alice 1 -> allow remaining=1 reset=1m
at 91s give alice 1 of first
at 91s peek alice -> allow remaining=1
`
	limittest.RunScript(t, "window.txt", script, func(t testing.TB, now func() time.Time) headgate.Limiter {
		store := memstore.MustNew(memstore.Options{Now: now, Algorithms: algorithms})
		t.Cleanup(func() { store.Close() })
		return store
	})
}
