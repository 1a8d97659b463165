package ledger_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
)

// Three hosts share a limit of 4 a month. Each lets 4 pass before it hears of the others; then all owe 8.
func ExampleLedger() {
	ctx := context.Background()
	limit := headgate.Per(4, 30*24*time.Hour)
	hosts := make(map[string]*ledger.Ledger)
	for _, name := range []string{"a", "b", "c"} {
		l, err := ledger.New(fleet.LedgerOptions{Secret: []byte("the same on all hosts")}, fleet.Peer{Name: name}, false)
		if err != nil {
			log.Fatal(err)
		}
		hosts[name] = l
		for range 4 {
			if _, err := l.Take(ctx, headgate.Check{Key: "alice", Limit: limit, Cost: 1}); err != nil {
				log.Fatal(err)
			}
		}
	}
	for from, l := range hosts {
		updates := l.Changes(nil, 100)
		for name, to := range hosts {
			if name != from {
				to.Apply(fleet.Peer{Name: from}, l.Uptime(), updates)
			}
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		d, err := hosts[name].Peek(ctx, headgate.Check{Key: "alice", Limit: limit})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(name, d.Remaining)
	}
	// Output:
	// a -8
	// b -8
	// c -8
}
