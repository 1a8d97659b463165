//go:build !race

package rules_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A million clients, each with a limit that no other has, fit into 200 MB.
func TestRegisteredClientsTakeLittleMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const clients = 200_000
	for name, limit := range map[string]func(i int) int64{
		"limits that many share": func(i int) int64 { return int64(i%100) + 1 },
		"limits of their own":    func(i int) int64 { return int64(i) + 1 },
	} {
		before := heap()
		r, err := rules.NewRegistry()
		if err != nil {
			t.Fatal(err)
		}
		for i := range clients {
			l := []rules.Limit{{Limit: headgate.PerHour(limit(i))}}
			if err := r.Put(rules.Client{ID: fmt.Sprintf("customer-%07d", i), Limits: l}); err != nil {
				t.Fatal(err)
			}
		}
		each := float64(heap()-before) / clients
		t.Logf("%s: %.0f bytes a client", name, each)
		if each > 200 {
			t.Errorf("%s: %.0f bytes a client, want at most 200", name, each)
		}
		runtime.KeepAlive(r)
	}
}
