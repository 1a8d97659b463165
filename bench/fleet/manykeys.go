package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/async"
	"github.com/headgate/headgate/server/fleet/fleetredis"
)

// This file has the scenario "many-keys": what many keys of moderate rate cost Redis, by mode.

func manyKeysScenarios() []harness.Scenario {
	return []harness.Scenario{{Name: "many-keys", Seconds: 60, Run: runManyKeys}}
}

// runManyKeys sends requests for many keys to one node, and counts the script calls and the CPU time of the server.
func runManyKeys(ctx context.Context, b *harness.Bench) error {
	lasting, share := 6*time.Second, 1.0
	if b.Results.Quick {
		lasting, share = 200*time.Millisecond, 0.01
	}
	limit := headgate.PerSecond(100)
	table := harness.FleetTable{
		Scenario: "many-keys", Title: "Many keys of moderate rate on one node, limit 100/s",
		Columns: []string{
			"keys", "mode", "requests a second", "script calls a request", "Redis's CPU a request, µs", "p50", "p99",
		},
	}
	sets := []struct {
		keys int
		rate float64 // requests per second and key
	}{{100, 40}, {1000, 40}, {100_000, 0.4}}
	modes := []string{"exact", "lease", "async"}
	for i, set := range sets {
		names := harness.KeyList(set.keys, func(i int) int { return i })
		for j, mode := range modes {
			b.Progress.At(float64(i*len(modes)+j)/float64(len(sets)*len(modes)), "many keys", fmt.Sprint(set.keys, " ", mode))
			err := withNodes(ctx, 1, func(server *redistest.Server, nodes []*leaseNode) error {
				limiter, end, err := nodes[0].limiter(ctx, mode)
				if err != nil {
					return err
				}
				calls, cpu, began := server.CommandStats()["evalsha"], serverCPU(server), time.Now()
				took, err := askKeys(limiter, limit, names, share*set.rate*float64(set.keys), lasting)
				if err = errors.Join(err, end()); err != nil {
					return err
				}
				asked := float64(took.Total)
				perRequest := float64(server.CommandStats()["evalsha"]-calls) / asked
				table.Rows = append(table.Rows, []string{
					fmt.Sprintf("%s, %g/s each", harness.HumanCount(set.keys), set.rate), mode,
					harness.HumanRate(asked / time.Since(began).Seconds()), fmt.Sprintf("%.3f", perRequest),
					fmt.Sprintf("%.1f", 1e6*(serverCPU(server)-cpu)/asked),
					harness.HumanDuration(float64(took.Quantile(0.5))), harness.HumanDuration(float64(took.Quantile(0.99))),
				})
				if mode == "lease" && set.keys == 1000 {
					table.Bars = append(table.Bars, harness.JudgedBar("lease, 1,000 keys at 40/s, script calls", "≤ 0.05 a request",
						fmt.Sprintf("%.3f", perRequest), perRequest <= 0.05))
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	b.Results.Fleet = append(b.Results.Fleet, table)
	return nil
}

// limiter returns the node's limiter of a mode, and a function that closes it.
func (n *leaseNode) limiter(ctx context.Context, mode string) (headgate.Limiter, func() error, error) {
	nothing := func() error { return nil }
	switch mode {
	case "exact":
		return n.guard, nothing, nil
	case "lease":
		return n.lease, nothing, nil
	}
	secret, err := fleetredis.Secret(ctx, n.store)
	if err != nil {
		return nil, nil, err
	}
	o := async.Options{Name: "node-1"}
	x, err := fleetredis.NewExchange(n.store, fleetredis.ExchangeOptions{Author: o.Author(), Secret: secret})
	if err != nil {
		return nil, nil, err
	}
	a, err := async.New(fleet.LedgerOptions{Secret: secret}, x, o)
	if err != nil {
		return nil, nil, err
	}
	return a, func() error { return a.Close(ctx) }, nil
}

// serverCPU returns the processor time that a server has used, in seconds.
func serverCPU(server *redistest.Server) (sum float64) {
	used := server.Info("cpu")
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, _ := strconv.ParseFloat(used[name], 64)
		sum += seconds
	}
	return sum
}

// askKeys asks for random keys, at a total rate per second, and returns how long the decisions took.
func askKeys(
	l headgate.Limiter, limit headgate.Limit, names []string, rate float64, lasting time.Duration,
) (*harness.Histogram, error) {
	const askers = 256
	took := make([]harness.Histogram, askers)
	failed := make(chan error, askers)
	var stop atomic.Bool
	var group sync.WaitGroup
	began := time.Now()
	for i := range askers {
		group.Go(func() {
			for asked := 0.0; !stop.Load(); {
				for due := time.Since(began).Seconds() * rate / askers; asked < due && !stop.Load(); asked++ {
					c := headgate.Check{Key: names[rand.IntN(len(names))], Limit: limit, Cost: 1}
					from := time.Now()
					if _, err := l.Take(context.Background(), c); err != nil {
						failed <- err
						return
					}
					took[i].Record(int64(time.Since(from)))
				}
				time.Sleep(time.Duration(2 * rand.Float64() * askers / rate * float64(time.Second))) // not all at once
			}
		})
	}
	timer := time.AfterFunc(lasting, func() { stop.Store(true) })
	defer timer.Stop()
	group.Wait()
	for i := range took[1:] {
		took[0].Merge(&took[i+1])
	}
	close(failed)
	return &took[0], <-failed
}
