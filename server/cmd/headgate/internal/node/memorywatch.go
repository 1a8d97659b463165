package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/headgate/headgate/memstore"
)

// memoryCheckInterval is the time between two checks of the memory store.
const memoryCheckInterval = 10 * time.Second

// watchMemory logs if the full memory store has evicted keys in use or refused new keys. It returns when ctx ends,
// after a last check.
func watchMemory(ctx context.Context, stats func() memstore.Stats, log *slog.Logger) {
	tick := time.NewTicker(memoryCheckInterval)
	defer tick.Stop()
	var before memstore.Stats
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		now := stats()
		if evicted, refused := now.Evictions-before.Evictions, now.Refusals-before.Refusals; evicted > 0 || refused > 0 {
			log.Warn("memory store full: live keys evicted or new keys refused; raise memory.max_bytes",
				"store", "memory", "evicted", evicted, "refused", refused, "keys", now.Keys, "bytes", now.Bytes, "max_bytes",
				now.MaxBytes)
		}
		before = now
	}
}
