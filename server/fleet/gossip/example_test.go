package gossip_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/gossip"
)

// Two hosts share a limit without a server between them.
func ExampleNew() {
	quiet := func(gossip.Event) {}
	a, err := gossip.New(fleet.LedgerOptions{}, gossip.Options{
		Name: "a", BindAddr: "127.0.0.1:0", Key: []byte("sixteen bytes or"), OnEvent: quiet,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = a.Close() }()
	b, err := gossip.New(fleet.LedgerOptions{}, gossip.Options{
		Name: "b", BindAddr: "127.0.0.1:0", Key: []byte("sixteen bytes or"), OnEvent: quiet, Join: []string{a.Addr()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = b.Close() }()
	for a.Live() < 2 || b.Live() < 2 {
		time.Sleep(10 * time.Millisecond)
	}

	check := headgate.Check{Key: "alice", Limit: headgate.PerHour(3), Cost: 3}
	d, err := a.Take(context.Background(), check)
	fmt.Println("a:", d.Allowed, err)

	check.Cost = 1
	for {
		if d, err = b.Peek(context.Background(), headgate.Check{Key: "alice", Limit: check.Limit}); err != nil || d.Remaining == 0 {
			break // b has heard
		}
		time.Sleep(10 * time.Millisecond)
	}
	d, err = b.Take(context.Background(), check)
	fmt.Println("b:", d.Allowed, err)
	// Output:
	// a: true <nil>
	// b: false <nil>
}
