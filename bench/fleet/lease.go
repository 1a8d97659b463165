package fleet

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/fleet/lease"
)

func leaseScenarios() []harness.Scenario {
	return []harness.Scenario{
		{Name: "lease-speed", Seconds: 40, Run: runLeaseSpeed},
		{Name: "lease-calls", Seconds: 65, Run: runLeaseCalls},
		{Name: "lease-surge", Seconds: 10, Run: runLeaseSurge},
	}
}

func leaseMethod(b *strings.Builder, _ *harness.Results) {
	b.WriteString("- Leases are measured in this process, with the Redis server on the same two cores, as a node has them: a lease of a guard of a\n" +
		"  store. Speed is that of decisions that are all admitted; exact is the same guard without the lease. They take turns, and tables show\n" +
		"  medians. Of 10,000 keys that take turns each is asked for some times a second: next to every check asks the server, and\n" +
		"  keeping account of the leases costs more than it saves. Calls are counted by the server. Nodes are leases with a connection of their own each. Of a bucket that many take from,\n" +
		"  what comes in an eighth of a second stays in it, which counts for more the shorter the run is; here it is 20 s.\n" +
		"- The surge is one node and one key. Requests come evenly spaced from two goroutines that do nothing else; one that is late is\n" +
		"  made up for, and how long an answer takes is counted from when it is asked for. p99 is of admitted decisions.\n")
}

// A leaseNode is a node with leases.
type leaseNode struct {
	store *redisstore.Store
	guard *guard.Guard
	lease *lease.Limiter
}

type fleetOf int

func (n fleetOf) Live() int { return int(n) }

func (n fleetOf) Known() int { return int(n) }

func newLeaseNode(ctx context.Context, server *redistest.Server, nodes int) (*leaseNode, error) {
	store, err := redisstore.Open(ctx, server.URL(), redisstore.Options{Prefix: "lease"})
	if err != nil {
		return nil, err
	}
	g, err := guard.New(store, guard.Options{Deadline: time.Second, OnEvent: func(guard.Event) {}})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	l, err := lease.New(g, lease.Options{Members: fleetOf(nodes)})
	if err != nil {
		return nil, errors.Join(err, g.Close(), store.Close())
	}
	return &leaseNode{store, g, l}, nil
}

func (n *leaseNode) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(n.lease.Close(ctx), n.guard.Close(), n.store.Close())
}

// withNodes calls a function with nodes that use a Redis server of their own.
func withNodes(ctx context.Context, nodes int, run func(*redistest.Server, []*leaseNode) error) (err error) {
	server, stop, err := harness.StartRedis()
	if err != nil {
		return err
	}
	defer stop()
	var list []*leaseNode
	defer func() {
		for _, n := range list {
			err = errors.Join(err, n.close())
		}
	}()
	for range nodes {
		n, err := newLeaseNode(ctx, server, nodes)
		if err != nil {
			return err
		}
		list = append(list, n)
	}
	return run(server, list)
}

// leaseRate lets goroutines make decisions as fast as they can, and returns the number of decisions per second.
func leaseRate(
	ctx context.Context, l headgate.Limiter, limit headgate.Limit, keys []string, goroutines int, lasting time.Duration,
) (float64, error) {
	var done atomic.Int64
	var stop atomic.Bool
	failed := make(chan error, goroutines)
	var group sync.WaitGroup
	began := time.Now()
	for g := range goroutines {
		group.Go(func() {
			n, at := int64(0), g*len(keys)/goroutines
			for ; !stop.Load(); n++ {
				d, err := l.Take(ctx, headgate.Check{Key: keys[at], Limit: limit, Cost: 1})
				if err == nil && (!d.Allowed || d.Degraded) {
					err = fmt.Errorf("%+v: want it allowed by the store", d)
				}
				if err != nil {
					failed <- err
					return
				}
				if at++; at == len(keys) {
					at = 0
				}
			}
			done.Add(n)
		})
	}
	timer := time.AfterFunc(lasting, func() { stop.Store(true) })
	defer timer.Stop()
	group.Wait()
	elapsed := time.Since(began)
	close(failed)
	return float64(done.Load()) / elapsed.Seconds(), <-failed
}

func runLeaseSpeed(ctx context.Context, b *harness.Bench) error {
	lasting, rounds := time.Second, min(b.Sizes.Rounds, 5)
	if b.Results.Quick {
		lasting, rounds = 50*time.Millisecond, 1
	}
	limit := headgate.PerSecond(1_000_000_000)
	keySets := []struct {
		keys       int
		goroutines int
		bar        bool
	}{
		{1, runtime.GOMAXPROCS(0), true},
		{100, runtime.GOMAXPROCS(0), true},
		{10_000, 64, false}, // a key is asked for too seldom for a lease to serve many
	}
	table := harness.FleetTable{
		Scenario: "lease-speed", Title: "Leases: decisions a second in one process, Redis on the same cores",
		Columns: []string{"keys, taking turns", "lease", "exact, 64 goroutines", "ratio"},
	}
	err := withNodes(ctx, 1, func(_ *redistest.Server, nodes []*leaseNode) error {
		for i, set := range keySets {
			keys := make([]string, set.keys)
			for k := range keys {
				keys[k] = fmt.Sprintf("key %d of %d", k, set.keys)
			}
			title := harness.Grouped(fmt.Sprint(set.keys)) + " keys"
			if set.keys == 1 {
				title = "one key"
			}
			var leased, exact []float64
			for round := range rounds + 1 {
				b.Progress.At(float64(i*(rounds+1)+round)/float64(len(keySets)*(rounds+1)), "lease, speed", title)
				fast, err := leaseRate(ctx, nodes[0].lease, limit, keys, set.goroutines, lasting)
				if err != nil {
					return err
				}
				slow, err := leaseRate(ctx, nodes[0].guard, limit, keys, 64, lasting)
				if err != nil {
					return err
				}
				if round > 0 { // the first only warms
					leased, exact = append(leased, fast), append(exact, slow)
				}
			}
			fast, slow := harness.MedianOf(leased), harness.MedianOf(exact)
			table.Rows = append(table.Rows, []string{
				title, harness.Grouped(fmt.Sprintf("%.0f", fast)),
				harness.Grouped(fmt.Sprintf("%.0f", slow)), harness.Ratio(fast / slow),
			})
			if set.bar {
				table.Bars = append(table.Bars, harness.JudgedBar("lease, "+title+", decisions/s", "≥ 1 M/s",
					fmt.Sprintf("%.2f M/s, %s exact", fast/1e6, harness.Ratio(fast/slow)), fast >= 1e6))
			}
		}
		return nil
	})
	b.Results.Fleet = append(b.Results.Fleet, table)
	return err
}

// runLeaseCalls increases the load on a hot key on four nodes, and counts the calls that reach the server.
func runLeaseCalls(ctx context.Context, b *harness.Bench) error {
	const nodes = 4
	lasting := 20 * time.Second
	if b.Results.Quick {
		lasting = 500 * time.Millisecond
	}
	limit := headgate.PerSecond(1000)
	table := harness.FleetTable{
		Scenario: "lease-calls", Title: "Leases: calls of Redis for a hot key of 1,000/s on four nodes",
		Columns: []string{"offered", "calls a second and node", "admitted, of burst + rate·t", "denied a second"},
	}
	for i, times := range []float64{2, 10, 100} {
		b.Progress.At(float64(i)/3, "lease, calls", fmt.Sprintf("%g ×", times))
		err := withNodes(ctx, nodes, func(server *redistest.Server, list []*leaseNode) error {
			before := server.CommandStats()["evalsha"]
			var admitted, denied atomic.Int64
			began := time.Now()
			err := offerAll(list, limit, times*1000/nodes, lasting, &admitted, &denied)
			elapsed := time.Since(began)
			calls := float64(server.CommandStats()["evalsha"]-before) / elapsed.Seconds() / nodes
			most := 1000 + 1000*elapsed.Seconds()
			share := float64(admitted.Load()) / most
			table.Rows = append(table.Rows, []string{
				fmt.Sprintf("%g ×", times), fmt.Sprintf("%.1f", calls), fmt.Sprintf("%.2f %%", 100*share),
				harness.Grouped(fmt.Sprintf("%.0f", float64(denied.Load())/elapsed.Seconds())),
			})
			table.Bars = append(table.Bars,
				harness.JudgedBar(fmt.Sprintf("lease, hot key offered %g ×, calls of Redis", times), "≤ 20/s a node",
					fmt.Sprintf("%.1f/s", calls), calls <= 20),
				harness.JudgedBar(fmt.Sprintf("lease, hot key offered %g ×, admitted", times), "≤ burst + rate·t",
					fmt.Sprintf("%.2f %%", 100*share), share <= 1))
			if times == 10 {
				table.Bars = append(table.Bars,
					harness.JudgedBar("lease, hot key offered 10 ×, used of the limit", "≥ 99 %", fmt.Sprintf("%.2f %%", 100*share),
						share >= 0.99))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	b.Results.Fleet = append(b.Results.Fleet, table)
	return nil
}

// offerAll sends requests to every node at a rate.
func offerAll(
	list []*leaseNode, limit headgate.Limit, rate float64, lasting time.Duration, admitted, denied *atomic.Int64,
) error {
	const workers = 8
	failed := make(chan error, workers*len(list))
	var group sync.WaitGroup
	for _, n := range list {
		for range workers {
			group.Go(func() {
				began, asked := time.Now(), 0.0
				for elapsed := time.Duration(0); elapsed < lasting; elapsed = time.Since(began) {
					for ; asked < elapsed.Seconds()*rate/workers; asked++ {
						d, err := n.lease.Take(context.Background(), headgate.Check{Key: "hot", Limit: limit, Cost: 1})
						if err != nil {
							failed <- err
							return
						}
						if d.Allowed {
							admitted.Add(1)
						} else {
							denied.Add(1)
						}
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
	}
	group.Wait()
	close(failed)
	return <-failed
}

// The request rates before and after the surge, in requests per second. The rate rises within a second.
const (
	surgeFrom, surgeTo = 22_000, 367_000
	surgeLimit         = 200_000
)
