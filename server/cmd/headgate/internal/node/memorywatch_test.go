package node

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/memstore"
)

func TestEvictionsOfLiveKeysAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook.Book
		var stats atomic.Pointer[memstore.Stats]
		stats.Store(&memstore.Stats{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			watchMemory(ctx, func() memstore.Stats { return *stats.Load() }, book.Logger())
			close(done)
		}()
		wait := func() {
			time.Sleep(memoryCheckInterval)
			synctest.Wait()
		}
		wait()
		if got := book.String(); got != "" {
			t.Errorf("without evictions: got the log %q, want nothing", got)
		}
		stats.Store(&memstore.Stats{Evictions: 7, Refusals: 2, Bytes: 100, MaxBytes: 100})
		wait()
		if got := book.String(); !strings.Contains(got, "memory store full") || !strings.Contains(got, "evicted=7 refused=2") {
			t.Errorf("after evictions: got the log %q, want a line with evicted=7 refused=2", got)
		}
		wait()
		if got := strings.Count(book.String(), "\n"); got != 1 {
			t.Errorf("with no further evictions: got %d lines, want 1", got)
		}
		stats.Store(&memstore.Stats{Evictions: 12, Refusals: 2, Bytes: 100, MaxBytes: 100})
		cancel()
		<-done
		if got := book.String(); !strings.Contains(got, "evicted=5 refused=0") {
			t.Errorf("after the end: got the log %q, want the evictions of the last seconds", got)
		}
	})
}
