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

// Any of a million clients, registered with a limit of its own, and of as many who are not.
func BenchmarkDecideOfAMillion(b *testing.B) {
	const clients = 1_000_000
	users := make([]request, clients)
	for i := range users {
		users[i].user = fmt.Sprintf("customer-%07d", i)
	}
	order := make([]int32, 1<<20)
	for i := range order {
		order[i] = rand.Int32N(clients)
	}
	rule := []rules.Rule{{ID: "per-user", Key: []headgate.Attribute{user}, Limits: limits("90000/10ms")}}
	for _, registered := range []bool{false, true} {
		b.Run(fmt.Sprintf("registered=%t", registered), func(b *testing.B) {
			e := newEngine(b, engine.Config{Store: newStore(b, memstore.Options{}), Rules: compile(b, rule)})
			for i := 0; registered && i < clients; i++ {
				c := rules.Client{ID: users[i].user, Limits: []rules.Limit{{Limit: headgate.Per(1000, time.Second+time.Duration(i)*time.Microsecond)}}}
				if err := e.AddClient(c); err != nil {
					b.Fatal(err)
				}
			}
			ctx := context.Background()
			var v engine.Verdict
			for i := range users { // so that all are known to the store
				if err := e.Decide(ctx, &users[i], &v); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := e.Decide(ctx, &users[order[i%len(order)]], &v); err != nil || !v.Action.Passes() {
					b.Fatal(v.Action, err)
				}
			}
		})
	}
}
