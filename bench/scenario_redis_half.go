package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/arrivals"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/internal/stalls"
)

// halfBar is what a decision in Redis may add to a request at half load, p99.
const halfBar = 2 * time.Millisecond

// redisHalfGoroutines is how many goroutines ask, each as soon as it was answered, to see how many decisions there are at most.
const redisHalfGoroutines = 64

// halfEntries are the contenders at half load: what stands before a request in a program, and the script alone.
func halfEntries() []entry {
	return []entry{
		{name: "redis-guard", title: "**headgate**, behind its guard", role: ours, make: newRedisGuard},
		bareEntry(),
	}
}

// runRedisHalf measures what a decision adds to a request when half as many come as could be decided.
func runRedisHalf(ctx context.Context, b *bench) error {
	server, stop, err := serveRedis()
	if err != nil {
		return err
	}
	defer stop()
	cores, err := ownCores()
	if err != nil {
		return err
	}
	t := &paceTable{}
	if t.First, err = serverOn(ctx, cores[len(cores)-1], server); err != nil {
		return err
	}
	var workers []*worker
	defer func() { dismissAll(workers) }()
	for _, e := range halfEntries() {
		b.progress.at(0.05*float64(len(workers)), "redis-half, filling", e.name)
		w, err := hireOn(ctx, cores[0], e, b.sizes.HalfKeys, b.sizes.RedisOps)
		if err != nil {
			return err
		}
		workers = append(workers, w)
		// They leave room on their core, so nobody starves.
		t.First = inRealTime(w.cmd.Process.Pid, measuredPriority) == nil && t.First
		t.Rows = append(t.Rows, paceRow{Contender: w.entry.name, Title: w.entry.title, Role: w.entry.role})
	}
	if t.Full, err = fullRate(workers[0], b.sizes.HalfRounds, b.sizes.RedisOps/4); err != nil {
		return err
	}
	t.Rate = t.Full / 2
	began := time.Now()
	watch, err := stalls.Begin(began, cores)
	if err != nil {
		return err
	}
	err = t.takeTurns(workers, b.sizes.HalfRounds, b.sizes.HalfLength, func(round int) {
		b.progress.at(0.15+0.85*float64(round)/float64(b.sizes.HalfRounds), fmt.Sprintf("redis-half, round %d of %d", round+1, b.sizes.HalfRounds), "")
	})
	found, seen := watch.End()
	for _, s := range found {
		t.Stalls++
		t.Stalled += s.To - s.From
		t.Longest = max(t.Longest, s.To-s.From)
	}
	t.Watched, t.Took = seen, time.Since(began)
	b.results.Half = t
	return err
}

// takeTurns has workers get requests at the table's rate, round by round, and every other round in the other order: who comes first
// meets what was left behind.
func (t *paceTable) takeTurns(workers []*worker, rounds int, length time.Duration, tell func(round int)) error {
	for round := range rounds {
		tell(round)
		for i := range workers {
			if round%2 == 1 {
				i = len(workers) - 1 - i
			}
			answer, err := workers[i].do(request{Do: doOffer, Order: uniform, Rate: t.Rate, Length: length})
			if err != nil {
				return err
			}
			t.Rows[i].Runs = append(t.Rows[i].Runs, answer.Offered)
		}
	}
	return nil
}

// fullRate returns how many decisions a second a worker makes at most, of some rounds after one that only warms.
func fullRate(w *worker, rounds, ops int) (rate float64, err error) {
	for round := range rounds + 1 {
		answer, err := w.do(request{Do: doTime, Order: uniform, Goroutines: redisHalfGoroutines, Ops: ops, Round: round})
		if err != nil {
			return 0, err
		}
		if round > 0 {
			rate = max(rate, float64(answer.Time.Decisions)/float64(answer.Time.Nanoseconds)*1e9)
		}
	}
	return rate, nil
}

// offer lets requests come at a rate for a while.
func (w *workload) offer(c contender, r request) response {
	sequence := w.sequence(r.Order)
	var denied atomic.Int64
	took, err := arrivals.Offer(r.Rate, r.Length, func() {
		if !c.Allow(sequence[rand.IntN(len(sequence))]) {
			denied.Add(1)
		}
	})
	switch {
	case err != nil:
		return response{Error: err.Error()}
	case denied.Load() > 0:
		return response{Error: fmt.Sprintf("%d of %d requests were denied, want none", denied.Load(), len(took))}
	}
	at := func(share float64) int64 { return int64(arrivals.Quantile(took, share)) }
	return response{Offered: pacing{Requests: int64(len(took)), P50: at(0.5), P99: at(0.99), P999: at(0.999), Max: at(1)}}
}

// hireOn starts a worker on a core, with the ballast that the program has.
func hireOn(ctx context.Context, core int, e entry, keys, picks int) (*worker, error) {
	taskset, err := program("taskset")
	if err != nil {
		return nil, err
	}
	cmd, err := command(ctx, childFlags{mode: childCarry, contender: e.name, quota: "open", keys: keys, picks: picks})
	if err != nil {
		return nil, err
	}
	cmd.Args = append([]string{taskset, "-c", strconv.Itoa(core)}, cmd.Args...)
	cmd.Path = taskset
	return employ(cmd, e, keys)
}

// serverOn moves a server to a core, where it comes before all others if it may.
func serverOn(ctx context.Context, core int, server *redistest.Server) (first bool, err error) {
	pid := server.Info("server")["process_id"]
	taskset, err := program("taskset")
	if err != nil {
		return false, err
	}
	// #nosec G204 -- the server's own word
	if said, err := exec.CommandContext(ctx, taskset, "-a", "-c", "-p", strconv.Itoa(core), pid).CombinedOutput(); err != nil {
		return false, fmt.Errorf("move Redis to core %d: %w: %s", core, err, said)
	}
	n, err := strconv.Atoi(pid)
	return err == nil && inRealTime(n, measuredPriority) == nil, err
}

// serveRedis starts a server and tells children its address.
func serveRedis() (server *redistest.Server, stop func(), err error) {
	if server, stop, err = startRedis(); err != nil {
		return nil, nil, err
	}
	if err := os.Setenv(redisEnv, server.Addr()); err != nil {
		stop()
		return nil, nil, err
	}
	return server, stop, nil
}

// reportHalf writes what a decision adds at half load.
func reportHalf(b *strings.Builder, r *results) {
	t := r.Half
	if t == nil {
		return
	}
	fmt.Fprintf(b, "\n### A decision at half load\n\n%s requests a second, half of the %s that headgate decided at most.\n\n",
		humanRate(t.Rate), humanRate(t.Full))
	b.WriteString("| limiter, all requests | p50 | p99 | quartiles of p99 | p99.9 | longest |\n|---|--:|--:|--:|--:|--:|\n")
	for i := range t.Rows {
		row := &t.Rows[i]
		longest := row.spread(func(p pacing) int64 { return p.Max }).Max
		fmt.Fprintf(b, "| %s | %s | %s |\n", row.Title, quantiles(row, p50, p99, p999), humanDuration(longest))
	}
	if !t.First || !t.Watched {
		b.WriteString("\nThere was no right to real-time priority: what else runs here is in these figures.\n")
	}
	if !t.Watched {
		return
	}
	fmt.Fprintf(b, "\nMeanwhile a core of the machine stood still %d times in %s: for %s together, for %s at the longest. Nothing is left out for that.\n",
		t.Stalls, humanDuration(float64(t.Took)), humanDuration(float64(t.Stalled)), humanDuration(float64(t.Longest)))
}

// halfLoadBar is about all requests of a round, in the middle one of the rounds.
func halfLoadBar(r *results) bar {
	what, want := "a decision at half load, p99 of all requests", "≤ "+halfBar.String()
	us, bare := r.Half.row("redis-guard"), r.Half.row("redis-bare")
	if us == nil || bare == nil || len(us.Runs) == 0 || len(bare.Runs) == 0 {
		return unmeasured(what, want)
	}
	a, b := us.spread(p99), bare.spread(p99)
	return judged(what, want, fmt.Sprintf("%s (quartiles %s–%s); the script alone: %s (%s–%s)",
		humanDuration(a.Median), humanDuration(a.Q1), humanDuration(a.Q3), humanDuration(b.Median), humanDuration(b.Q1), humanDuration(b.Q3)),
		a.Median <= float64(halfBar))
}
