package resp_test

import (
	"bufio"
	"context"
	"fmt"
	"net"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/service/resp"
)

func Example() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	set, err := match.Compile([]rules.Rule{{
		ID:     "search-per-user",
		Key:    []headgate.Attribute{{Kind: headgate.AttrUser}},
		Limits: []rules.Limit{{Limit: headgate.MustParseLimit("10/h")}},
	}})
	if err != nil {
		panic(err)
	}
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		panic(err)
	}
	s, err := resp.New(resp.Config{
		Engine: e, Store: store,
		Bind: func(l headgate.Limit) (resp.Bound, error) { return store.Prepare(l, headgate.Open) },
	})
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()

	// Any Redis client works; this is what it sends.
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		panic(err)
	}
	fmt.Fprint(c, "HG.TAKE search-per-user alice\r\nCL.THROTTLE alice 15 30 60\r\n")
	answers := bufio.NewScanner(c)
	for range 2 {
		var lines []string
		for range 6 {
			answers.Scan()
			lines = append(lines, answers.Text())
		}
		fmt.Println(lines)
	}

	if err := s.Shutdown(context.Background()); err != nil {
		panic(err)
	}
	fmt.Println(<-served)
	// Output:
	// [*5 :1 :10 :9 :-1 :360000]
	// [*5 :0 :16 :15 :-1 :2]
	// <nil>
}
