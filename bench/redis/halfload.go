package redis

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/bench/core"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
	"github.com/headgate/headgate/bench/site"
	"github.com/headgate/headgate/bench/stalls"
	"github.com/headgate/headgate/internal/redistest"
)

// halfBar is the time that a decision in Redis may add to a request at half load, at p99.
const halfBar = 2 * time.Millisecond

// redisHalfGoroutines is the number of goroutines that make requests one after the other to find the highest rate of
// decisions.
const redisHalfGoroutines = 64

// HalfEntries are the contenders at half load: a limiter as a program uses it, and the script alone.
func HalfEntries() []limiters.Entry {
	return []limiters.Entry{
		{Name: "redis-guard", Title: "**headgate**, behind its guard", Role: harness.Ours, Make: newRedisGuard},
		bareEntry(),
	}
}

// runRedisHalf measures the time that a decision adds to a request at half of the highest rate.
func runRedisHalf(ctx context.Context, b *harness.Bench) error {
	server, stop, err := serveRedis()
	if err != nil {
		return err
	}
	defer stop()
	cores, err := site.OwnCores()
	if err != nil {
		return err
	}
	t := &harness.PaceTable{}
	if t.First, err = serverOn(ctx, cores[len(cores)-1], server); err != nil {
		return err
	}
	var workers []*core.Worker
	defer func() { core.StopAll(workers) }()
	for _, e := range HalfEntries() {
		b.Progress.At(0.05*float64(len(workers)), "redis-half, filling", e.Name)
		w, err := hireOn(ctx, cores[0], e, b.Sizes.HalfKeys, b.Sizes.RedisOps)
		if err != nil {
			return err
		}
		workers = append(workers, w)
		// The workers leave a part of their core idle, so other processes do not starve.
		t.First = site.InRealTime(w.Cmd.Process.Pid, site.MeasuredPriority) == nil && t.First
		t.Rows = append(t.Rows, harness.PaceRow{Contender: w.Entry.Name, Title: w.Entry.Title, Role: w.Entry.Role})
	}
	if t.Full, err = fullRate(workers[0], b.Sizes.HalfRounds, b.Sizes.RedisOps/4); err != nil {
		return err
	}
	t.Rate = t.Full / 2
	began := time.Now()
	watch, err := stalls.Begin(began, cores)
	if err != nil {
		return err
	}
	err = takeTurns(t, workers, b.Sizes.HalfRounds, b.Sizes.HalfLength, func(round int) {
		b.Progress.At(0.15+0.85*float64(round)/float64(b.Sizes.HalfRounds), fmt.Sprintf("redis-half, round %d of %d", round+1,
			b.Sizes.HalfRounds), "")
	})
	found, seen := watch.End()
	for _, s := range found {
		t.Stalls++
		t.Stalled += s.To - s.From
		t.Longest = max(t.Longest, s.To-s.From)
	}
	t.Watched, t.Took = seen, time.Since(began)
	b.Results.Half = t
	return err
}

// takeTurns sends requests to workers at the table's rate, round by round. It reverses the order in every other round,
// because the first worker of a round is affected by the end of the previous one.
func takeTurns(
	t *harness.PaceTable, workers []*core.Worker, rounds int, length time.Duration, tell func(round int),
) error {
	for round := range rounds {
		tell(round)
		for i := range workers {
			if round%2 == 1 {
				i = len(workers) - 1 - i
			}
			answer, err := workers[i].Do(core.Request{Do: core.DoOffer, Order: harness.Uniform, Rate: t.Rate, Length: length})
			if err != nil {
				return err
			}
			t.Rows[i].Runs = append(t.Rows[i].Runs, answer.Offered)
		}
	}
	return nil
}

// fullRate returns the highest rate of decisions of a worker in some rounds, after a warm-up round.
func fullRate(w *core.Worker, rounds, ops int) (rate float64, err error) {
	for round := range rounds + 1 {
		answer, err := w.Do(core.Request{
			Do: core.DoTime, Order: harness.Uniform, Goroutines: redisHalfGoroutines, Ops: ops,
			Round: round,
		})
		if err != nil {
			return 0, err
		}
		if round > 0 {
			rate = max(rate, float64(answer.Time.Decisions)/float64(answer.Time.Nanoseconds)*1e9)
		}
	}
	return rate, nil
}

// hireOn starts a worker on a core, with the ballast of the headgate program.
func hireOn(ctx context.Context, cpu int, e limiters.Entry, keys, picks int) (*core.Worker, error) {
	taskset, err := site.Program("taskset")
	if err != nil {
		return nil, err
	}
	cmd, err := harness.ChildCommand(ctx, harness.ChildFlags{
		Mode: harness.ChildCarry, Contender: e.Name, Quota: "open",
		Keys: keys, Picks: picks,
	})
	if err != nil {
		return nil, err
	}
	cmd.Args = append([]string{taskset, "-c", strconv.Itoa(cpu)}, cmd.Args...)
	cmd.Path = taskset
	return core.StartWorkerCommand(cmd, e, keys)
}

// serverOn moves a server to a core, with priority over all other processes if that is allowed.
func serverOn(ctx context.Context, cpu int, server *redistest.Server) (first bool, err error) {
	pid := server.Info("server")["process_id"]
	taskset, err := site.Program("taskset")
	if err != nil {
		return false, err
	}
	// #nosec G204 -- the server's own word
	if said, err := exec.CommandContext(ctx, taskset, "-a", "-c", "-p", strconv.Itoa(cpu),
		pid).CombinedOutput(); err != nil {
		return false, fmt.Errorf("move Redis to core %d: %w: %s", cpu, err, said)
	}
	n, err := strconv.Atoi(pid)
	return err == nil && site.InRealTime(n, site.MeasuredPriority) == nil, err
}

// serveRedis starts a server and sets its address for child processes.
func serveRedis() (server *redistest.Server, stop func(), err error) {
	if server, stop, err = harness.StartRedis(); err != nil {
		return nil, nil, err
	}
	if err := os.Setenv(redisEnv, server.Addr()); err != nil {
		stop()
		return nil, nil, err
	}
	return server, stop, nil
}

// reportHalf writes the time that a decision adds at half load.
func reportHalf(b *strings.Builder, r *harness.Results) {
	t := r.Half
	if t == nil {
		return
	}
	fmt.Fprintf(b, "\n### A decision at half load\n\n%s requests a second, half of the %s that headgate decided at most.\n\n",
		harness.HumanRate(t.Rate), harness.HumanRate(t.Full))
	b.WriteString("| limiter, all requests | p50 | p99 | quartiles of p99 | p99.9 | longest |\n|---|--:|--:|--:|--:|--:|\n")
	for i := range t.Rows {
		row := &t.Rows[i]
		longest := row.Spread(func(p harness.Pacing) int64 { return p.Max }).Max
		fmt.Fprintf(b, "| %s | %s | %s |\n", row.Title, harness.Quantiles(row, harness.P50, harness.P99, harness.P999),
			harness.HumanDuration(longest))
	}
	if !t.First || !t.Watched {
		b.WriteString("\nThere was no right to real-time priority: what else runs here is in these figures.\n")
	}
	if !t.Watched {
		return
	}
	fmt.Fprintf(b, "\nMeanwhile a core of the machine stood still %d times in %s: for %s together, for %s at the longest. Nothing is left out for that.\n",
		t.Stalls, harness.HumanDuration(float64(t.Took)), harness.HumanDuration(float64(t.Stalled)), harness.HumanDuration(
			float64(t.Longest)))
}

// halfLoadBar checks all requests of a round, by the median of the rounds.
func halfLoadBar(r *harness.Results) harness.Bar {
	what, want := "a decision at half load, p99 of all requests", "≤ "+halfBar.String()
	us, bare := r.Half.Row("redis-guard"), r.Half.Row("redis-bare")
	if us == nil || bare == nil || len(us.Runs) == 0 || len(bare.Runs) == 0 {
		return harness.UnmeasuredBar(what, want)
	}
	a, b := us.Spread(harness.P99), bare.Spread(harness.P99)
	return harness.JudgedBar(what, want, fmt.Sprintf("%s (quartiles %s–%s); the script alone: %s (%s–%s)",
		harness.HumanDuration(a.Median), harness.HumanDuration(a.Q1), harness.HumanDuration(a.Q3), harness.HumanDuration(
			b.Median), harness.HumanDuration(b.Q1), harness.HumanDuration(b.Q3)),
		a.Median <= float64(halfBar))
}
