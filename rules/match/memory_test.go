//go:build !race

package match_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/registry"
)

// A million clients with a limit each fit into 200 MB.
func TestRegisteredClientsTakeLittleMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const clients = 200_000
	none := func(int) []rules.Property { return nil }
	for name, has := range map[string]struct {
		limit func(i int) int64
		plan  func(i int) []rules.Property
		most  float64 // bytes a client
	}{
		"limits that many share": {func(i int) int64 { return int64(i%100) + 1 }, none, 80},
		"limits of their own":    {func(i int) int64 { return int64(i) + 1 }, none, 80},
		"limits and a plan":      {func(i int) int64 { return int64(i) + 1 }, func(i int) []rules.Property { return on(fmt.Sprint("plan-", i%3)) }, 80},
		"a plan":                 {nil, func(i int) []rules.Property { return on(fmt.Sprint("plan-", i%3)) }, 80},
		"an account each":        {func(i int) int64 { return int64(i) + 1 }, func(i int) []rules.Property { return on(fmt.Sprint("account-", i)) }, 500},
	} {
		before := heap()
		r, err := registry.New()
		if err != nil {
			t.Fatal(err)
		}
		for i := range clients {
			c := rules.Client{ID: fmt.Sprintf("customer-%07d", i), Properties: has.plan(i)}
			if has.limit != nil {
				c.Limits = []rules.Limit{{Limit: headgate.PerHour(has.limit(i))}}
			}
			if err := r.Put(c); err != nil {
				t.Fatal(err)
			}
		}
		each := float64(heap()-before) / clients
		t.Logf("%s: %.0f bytes a client", name, each)
		if each > has.most {
			t.Errorf("%s: %.0f bytes a client, want at most %.0f", name, each, has.most)
		}
		runtime.KeepAlive(r)
	}
}
