package async_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/async"
	"github.com/headgate/headgate/server/fleet/fleetredis"
	"github.com/headgate/headgate/server/fleet/membership"
)

// A node that shares limits through Redis, and knows how many others do. There is no Redis here, so it decides by itself
// until there is.
func ExampleNew() {
	ctx := context.Background()
	store, err := redisstore.Open(ctx, "redis://127.0.0.1:1", redisstore.Options{
		Secret: []byte("the same on all nodes"), StartUnreachable: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	secret, err := fleetredis.Secret(ctx, store)
	if err != nil {
		log.Fatal(err)
	}
	list, err := fleetredis.NewMemberList(store, "production")
	if err != nil {
		log.Fatal(err)
	}
	members, err := membership.New(ctx, list, membership.Options{Name: "node-7", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	options := async.Options{Name: "node-7"}
	exchange, err := fleetredis.NewExchange(store, fleetredis.ExchangeOptions{
		Name: "production", Author: options.Author(), Secret: secret,
	})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := async.New(fleet.LedgerOptions{Secret: secret, Members: members}, exchange, options)
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Take(ctx, headgate.Check{Key: "alice", Limit: headgate.PerHour(10), Cost: 1})
	fmt.Println(d.Allowed, d.Remaining, err)
	fmt.Println("live nodes:", members.Live())

	end, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	sent, left := limiter.Close(end), members.Close(end)
	fmt.Println("told the others:", sent == nil, left == nil)
	if err := store.Close(); err != nil {
		log.Print(err)
	}
	// Output:
	// true 9 <nil>
	// live nodes: 1
	// told the others: false false
}
