package region_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/fleetredis"
	"github.com/headgate/headgate/server/fleet/region"
)

// A region that shares limits with other regions through a Redis that all reach. Neither that nor its own is here, and the
// store is in memory: it decides all the same.
func ExampleNew() {
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
	secret, err := fleetredis.Secret(ctx, globe)
	if err != nil {
		log.Fatal(err)
	}
	regionStore, err := fleetredis.NewRegionStore(home, "production")
	if err != nil {
		log.Fatal(err)
	}
	options := region.Options{Region: "eu", Node: "node-7", Interval: time.Second}
	exchange, err := fleetredis.NewExchange(globe, fleetredis.ExchangeOptions{
		Name: "production", Author: options.Author(), Secret: secret,
	})
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := region.New(fleet.LedgerOptions{Secret: secret}, store, regionStore, exchange, options)
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
