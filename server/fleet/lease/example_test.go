package lease_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/server/fleet/lease"
)

// A node of a fleet takes units from the store that all nodes share, and decides by itself while they last. The store would be
// guard.New(redis, …), where redis is a redisstore.Store.
func ExampleLimiter() {
	store := stepstore.New(time.Now)
	lease, err := lease.New(store, lease.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	c := headgate.Check{Key: "search/alice", Limit: headgate.PerHour(3), Cost: 1}
	for range 4 {
		d, err := lease.Take(ctx, c)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Remaining)
	}
	if err := lease.Close(ctx); err != nil { // what was not used goes back
		fmt.Println(err)
	}
	// Output:
	// true 2
	// true 1
	// true 0
	// false 0
}
