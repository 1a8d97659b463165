package fleet_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet"
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

// A node that shares limits through Redis, and knows how many others do.
func ExampleNewAsync() {
	ctx := context.Background()
	store, err := redisstore.Open(ctx, "redis://localhost:6379", redisstore.Options{})
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
	roll, err := fleet.NewRoll(ctx, book, fleet.RollOptions{Name: "node-7"})
	if err != nil {
		log.Fatal(err)
	}
	options := fleet.AsyncOptions{Name: "node-7", Incarnation: uint64(time.Now().UnixNano())}
	board, err := store.Board(redisstore.BoardOptions{Name: "production", Author: options.Author(), Mark: fleet.Fingerprint(secret)})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := fleet.NewAsync(fleet.LedgerOptions{Secret: secret, Members: roll}, board, options)
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Take(ctx, headgate.Check{Key: "alice", Limit: headgate.PerSecond(10), Cost: 1})
	fmt.Println(d.Allowed, err)
	if err := limiter.Close(ctx); err != nil {
		log.Print(err)
	}
	if err := roll.Close(ctx); err != nil {
		log.Print(err)
	}
}

// A region with its own Redis that shares limits with other regions through another one.
func ExampleNewRegion() {
	ctx := context.Background()
	home, err := redisstore.Open(ctx, "redis://redis.eu.internal:6379", redisstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	globe, err := redisstore.Open(ctx, "redis://redis.global.internal:6379", redisstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	secret, err := globe.FleetSecret(ctx) // the same in all regions
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
	limiter, err := fleet.NewRegion(fleet.LedgerOptions{Secret: secret}, home, book, board, options)
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Take(ctx, headgate.Check{Key: "alice", Limit: headgate.PerSecond(10), Cost: 1})
	fmt.Println(d.Allowed, err)
	if err := limiter.Close(ctx); err != nil {
		log.Print(err)
	}
}
