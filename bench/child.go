package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/headgate/headgate/bench/control"
	"github.com/headgate/headgate/bench/core"
	"github.com/headgate/headgate/bench/gateway"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
	"github.com/headgate/headgate/bench/redis"
	"github.com/headgate/headgate/bench/rules"
	"github.com/headgate/headgate/bench/service"
	"github.com/headgate/headgate/bench/site"
)

// runChild is the main function of a child process. It prints its result as JSON.
func runChild(f harness.ChildFlags, in io.Reader, out io.Writer) error {
	printed := json.NewEncoder(out)
	list := slices.Concat(limiters.Entries(), redis.Entries(), redis.HalfEntries())
	switch f.Mode {
	case harness.ChildResponder:
		return site.RunResponder(in, printed)
	case harness.ChildFront:
		return harness.WithBallast(func() error { return gateway.RunFront(f.Contender, f.Target, in, printed) })
	case harness.ChildClients, harness.ChildRules:
		rounds, err := strconv.Atoi(f.At)
		if err != nil {
			return fmt.Errorf("-at %q: want how many rounds", f.At)
		}
		if f.Mode == harness.ChildRules {
			return rules.MeasureRules(f.Keys, f.Picks, rounds, printed)
		}
		return control.MeasureClients(f.Keys, f.Picks, rounds, printed)
	case harness.ChildCarry:
		f.Mode = harness.ChildServe
		return harness.WithBallast(func() error { return core.RunLimiter(f, list, in, printed) })
	case harness.ChildServer:
		return harness.WithBallast(func() error { return service.RunServer(f.Contender, f.Target, in, printed) })
	default:
		return core.RunLimiter(f, list, in, printed)
	}
}
