package main

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/memstore"
)

func TestJobsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.MustNew(memstore.Options{})
		defer store.Close()
		var running, most atomic.Int64
		jobs := make([]func(), 21)
		for i := range jobs {
			jobs[i] = func() {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(time.Millisecond)
				running.Add(-1)
			}
		}
		start := time.Now()
		if err := run(t.Context(), store, jobs); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 2*time.Second || most.Load() > 3 {
			t.Errorf("21 jobs took %v with %d at once, want at least 2s and at most 3", took, most.Load())
		}
	})
}
