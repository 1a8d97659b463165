package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

// Any of a million clients, registered with a limit of its own, and of as many who are not. Requests are as a server
// has them, read a moment ago, so that what is not in the cache is the registry and the store.
func BenchmarkDecideOfAMillion(b *testing.B) {
	const clients = 1_000_000
	name := func(i int) string { return fmt.Sprintf("customer-%07d", i) }
	asked := make([]request, 1<<20)
	for i := range asked {
		asked[i].user = name(rand.IntN(clients))
	}
	rule := []rules.Rule{{ID: "per-user", Key: []headgate.Attribute{user}, Limits: limits("90000/10ms")}}
	for _, bench := range []struct {
		name  string
		limit func(i int) headgate.Limit
	}{
		{"unregistered", nil},
		{"one of 100 limits", func(i int) headgate.Limit { return headgate.Per(10_000+int64(i%100), 10*time.Millisecond) }},
		{"one of 5,000 limits", func(i int) headgate.Limit { return headgate.Per(10_000+int64(i%5000), 10*time.Millisecond) }},
		{"a limit that no other has", func(i int) headgate.Limit {
			return headgate.Per(10_000+int64(i%20_000), time.Duration(10+i/20_000)*time.Millisecond)
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			e := newEngine(b, engine.Config{Store: newStore(b, memstore.Options{}), Rules: compile(b, rule)})
			ctx := context.Background()
			var v engine.Verdict
			for i := range clients { // so that all are known to the store
				if bench.limit != nil {
					if err := e.AddClient(rules.Client{ID: name(i), Limits: []rules.Limit{{Limit: bench.limit(i)}}}); err != nil {
						b.Fatal(err)
					}
				}
				if err := e.Decide(ctx, &request{user: name(i)}, &v); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := e.Decide(ctx, &asked[i%len(asked)], &v); err != nil || !v.Action.Passes() {
					b.Fatal(v.Action, err)
				}
			}
		})
	}
}
