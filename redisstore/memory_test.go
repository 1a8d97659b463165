//go:build !race

package redisstore

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
)

// TestMemoryPerKey measures what docs/redis.md says.
func TestMemoryPerKey(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{Secret: testSecret})
	const keys = 5_000
	for _, test := range []struct {
		limit string
		most  float64 // bytes
	}{
		{"100/h", 190},
		{"100/h gcra", 190},
		{"100/h leaky-bucket", 190},
		{"100/h fixed-window", 190},
		{"100/h sliding-window", 190},
		{"100/h sliding-buckets 12", 220},
		{"100/h sliding-log", 340},
		{"100 concurrent", 340},
	} {
		if _, err := server.Do("FLUSHALL"); err != nil {
			t.Fatal(err)
		}
		before := usedMemory(t, server)
		limit := headgate.MustParseLimit(test.limit)
		var group sync.WaitGroup
		for g := range 32 {
			group.Go(func() {
				for i := g; i < keys; i += 32 {
					if _, err := s.Take(ctx, headgate.Check{Key: fmt.Sprint("client-", i), Limit: limit, Cost: 1}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		each := float64(usedMemory(t, server)-before) / keys
		t.Logf("%-28s %.0f bytes a key", test.limit, each)
		if each > test.most {
			t.Errorf("%s: %.0f bytes a key, want at most %.0f", test.limit, each, test.most)
		}
	}
}

func usedMemory(t testing.TB, server *redistest.Server) int64 {
	t.Helper()
	n, err := strconv.ParseInt(server.Info("memory")["used_memory_dataset"], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	overhead, err := strconv.ParseInt(server.Info("memory")["used_memory_overhead"], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n + overhead
}
