package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// Three hosts share a limit of 4 a month. Each lets 4 pass before it hears of the others; then all owe 8.
func ExampleLedger() {
	ctx := context.Background()
	limit := headgate.Per(4, 30*24*time.Hour)
	hosts := make(map[string]*fleet.Ledger)
	for _, name := range []string{"a", "b", "c"} {
		l, err := fleet.NewLedger(fleet.LedgerOptions{Secret: []byte("the same on all hosts")})
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
		news := l.Changes(nil, 100)
		for name, to := range hosts {
			if name != from {
				to.Absorb(fleet.Peer{Name: from}, l.Uptime(), news)
			}
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		d, err := hosts[name].Take(ctx, headgate.Check{Key: "alice", Limit: limit})
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

// A node that shares limits through Redis, and knows how many others do. There is no Redis here, so it decides by itself
// until there is.
func ExampleNewAsync() {
	ctx := context.Background()
	store, err := redisstore.Open(ctx, "redis://127.0.0.1:1", redisstore.Options{
		Secret: []byte("the same on all nodes"), StartUnreachable: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	secret, err := store.FleetSecret(ctx)
	if err != nil {
		log.Fatal(err)
	}
	book, err := store.Roll("production")
	if err != nil {
		log.Fatal(err)
	}
	roll, err := fleet.NewRoll(ctx, book, fleet.RollOptions{Name: "node-7", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	options := fleet.AsyncOptions{Name: "node-7"}
	board, err := store.Board(redisstore.BoardOptions{Name: "production", Author: options.Author(), Mark: fleet.Fingerprint(secret)})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := fleet.NewAsync(fleet.LedgerOptions{Secret: secret, Members: roll}, board, options)
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Take(ctx, headgate.Check{Key: "alice", Limit: headgate.PerHour(10), Cost: 1})
	fmt.Println(d.Allowed, d.Remaining, err)
	fmt.Println("live nodes:", roll.Live())

	end, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	untold, unheard := limiter.Close(end), roll.Close(end)
	fmt.Println("told the others:", untold == nil, unheard == nil)
	if err := store.Close(); err != nil {
		log.Print(err)
	}
	// Output:
	// true 9 <nil>
	// live nodes: 1
	// told the others: false false
}

// A region that shares limits with other regions through a Redis that all reach. Neither that nor its own is here, and the
// store is in memory: it decides all the same.
func ExampleNewRegion() {
	ctx := context.Background()
	away := redisstore.Options{Secret: []byte("the same in all regions"), StartUnreachable: true, Logger: slog.New(slog.DiscardHandler)}
	home, err := redisstore.Open(ctx, "redis://127.0.0.1:1", away)
	if err != nil {
		log.Fatal(err)
	}
	globe, err := redisstore.Open(ctx, "redis://127.0.0.1:2", away)
	if err != nil {
		log.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{}) // with Redis: home, or a guard or a Lease around it
	if err != nil {
		log.Fatal(err)
	}
	secret, err := globe.FleetSecret(ctx)
	if err != nil {
		log.Fatal(err)
	}
	book, err := home.RegionBook("production")
	if err != nil {
		log.Fatal(err)
	}
	options := fleet.RegionOptions{Region: "eu", Node: "node-7", Interval: time.Second}
	board, err := globe.Board(redisstore.BoardOptions{Name: "production", Author: options.Author(), Mark: fleet.Fingerprint(secret)})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := fleet.NewRegion(fleet.LedgerOptions{Secret: secret}, store, book, board, options)
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Take(ctx, headgate.Check{Key: "alice", Limit: headgate.PerHour(10), Cost: 1})
	fmt.Println(d.Allowed, d.Remaining, err)

	end, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	fmt.Println("told the others:", limiter.Close(end) == nil)
	if err := errors.Join(store.Close(), home.Close(), globe.Close()); err != nil {
		log.Print(err)
	}
	// Output:
	// true 9 <nil>
	// told the others: false
}
