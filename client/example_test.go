package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/service/grpcapi"
)

// serve runs a decision service, and returns its address and how to end it.
func serve() (address string, end func()) {
	store, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		log.Fatal(err)
	}
	set, err := match.Compile([]rules.Rule{{
		ID: "search", Key: []headgate.Attribute{{Kind: headgate.AttrUser}}, Limits: []rules.Limit{{Limit: headgate.PerHour(2)}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	decide, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		log.Fatal(err)
	}
	server, err := grpcapi.New(grpcapi.Config{Engine: decide, Store: store})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return listener.Addr().String(), func() {
		if err := errors.Join(server.Shutdown(context.Background()), <-served, store.Close()); err != nil {
			log.Fatal(err)
		}
	}
}

func ExampleClient_RateLimit() {
	address, end := serve()
	defer end()
	c, err := client.New(client.Options{Address: address, Deadline: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	for range 3 {
		answer, err := c.RateLimit(context.Background(), client.Request{User: "alice"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(answer.Passed, answer.Remaining, "of", answer.Limit, "left by", answer.Rule)
	}
	// Output:
	// true 1 of 2 left by search
	// true 0 of 2 left by search
	// false 0 of 2 left by search
}

func ExampleClient_Limiter() {
	address, end := serve()
	defer end()
	c, err := client.New(client.Options{Address: address, Deadline: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	limiter, err := c.Limiter(guard.Options{Deadline: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()
	d, err := limiter.Take(context.Background(), headgate.Check{Key: "mails/alice", Limit: headgate.PerHour(100), Cost: 30})
	fmt.Println(d.Allowed, d.Remaining, err)
	// Output: true 70 <nil>
}
