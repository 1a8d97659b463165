package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
)

// This file has the common code of the part "service": servers that make decisions over a protocol, each compared with
// the fastest way to implement the protocol. Each protocol has a file of its own.

// serviceScenarios are the scenarios of all protocols.
func serviceScenarios() []harness.Scenario {
	return slices.Concat(respScenarios(), grpcScenarios(), rlsScenarios(), httpScenarios())
}

// serviceServers are the servers that are implemented in this package, by name. A child process runs one of them.
func serviceServers() map[string]serviceServer {
	all := map[string]serviceServer{}
	for _, some := range []map[string]serviceServer{respServers(), grpcServers(), rlsServers(), httpServers()} {
		maps.Copy(all, some)
	}
	return all
}

// serviceBars compares the results of all protocols with their bars.
func serviceBars(r *harness.Results) []harness.Bar {
	return slices.Concat(respBars(r), grpcBars(r), rlsBars(r), httpBars(r))
}

// serviceMethod describes how servers are compared.
func serviceMethod(b *strings.Builder, r *harness.Results) {
	fmt.Fprintf(b, `- One core is the measured server's alone, another that of the load. All servers stay alive and take turns, %d rounds after one
  that only warms, in a new random order every round; those that wait sleep. Tables show medians over the rounds and the
  quartiles. "headgate against it" is taken round by round, and the median of that is what bars are held against.
- headgate counts in memory. It has %d MiB of ballast in its heap, as the program has, and so have all Go servers here.
`, r.Sizes.GatewayRounds, harness.BallastBytes>>20)
	respMethod(b, r)
	grpcMethod(b, r)
	rlsMethod(b, r)
	httpMethod(b, r)
}

func serviceVersions(ctx context.Context) []harness.ModuleVersion {
	return slices.Concat(respVersions(ctx), rlsVersions())
}

// A serviceServer runs a server of a protocol. Its arguments are the address to listen on and the value from the
// command line. It returns a function that stops the server.
type serviceServer func(l net.Listener, target string) (stop func() error, err error)

// RunServer is the main function of a child process that is a server until in ends.
func RunServer(name, target string, in io.Reader, out *json.Encoder) error {
	start, ok := serviceServers()[name]
	if !ok {
		return fmt.Errorf("no server is named %q", name)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	stop, err := start(l, target)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	err = out.Encode(site.Listening{Address: l.Addr().String()})
	if err == nil {
		_, _ = io.Copy(io.Discard, in) // however it ends, it ends
	}
	return errors.Join(err, stop())
}

// openServer starts one of serviceServers in a new process.
func openServer(name, target string) func(context.Context, *site.Site) (site.RunningServer, error) {
	return func(ctx context.Context, s *site.Site) (site.RunningServer, error) {
		return s.StartChild(ctx, s.FrontCore, harness.ChildFlags{Mode: harness.ChildServer, Contender: name, Target: target})
	}
}

// A serviceContender is a contestant of the part "service": a server and its load.
type serviceContender struct {
	// name is short and unique in its scenario, title is for tables.
	name, title string
	role        harness.Role
	// server is the name of the server for open. Contestants with the same server share it.
	server string
	open   func(context.Context, *site.Site) (site.RunningServer, error)
	// run measures once.
	run func(context.Context, *site.Site, site.RunningServer) (loadResult, error)
}

// A loadResult is the result of one measurement, as the load saw it.
type loadResult struct {
	Ops      int64 // decisions
	Took     time.Duration
	P50, P99 time.Duration // 0 if not measured
}

// runService measures contestants round by round.
func runService(ctx context.Context, b *harness.Bench, table harness.ServiceTable, list []serviceContender) error {
	s, err := site.OpenSite(ctx, b)
	if err != nil {
		return err
	}
	defer s.Close()
	at := map[string]site.RunningServer{}
	for _, c := range list {
		if _, open := at[c.server]; open {
			continue
		}
		b.Progress.At(0, table.ID+", opening", c.server)
		p, err := c.open(ctx, s)
		if err != nil {
			return fmt.Errorf("open %s: %w", c.server, err)
		}
		at[c.server] = p
	}
	for _, c := range list {
		table.Rows = append(table.Rows, harness.ServiceRow{Contender: c.name, Title: c.title, Role: c.role})
	}
	rounds := b.Sizes.GatewayRounds
	step := 0
	for round := range rounds + 1 {
		stage := fmt.Sprintf("%s, round %d of %d", table.ID, round, rounds)
		if round == 0 {
			stage = table.ID + ", warming"
		}
		for _, i := range rand.Perm(len(list)) {
			b.Progress.At(float64(step)/float64((rounds+1)*len(list)), stage, list[i].name)
			step++
			run, err := askServer(ctx, s, &list[i], at[list[i].server])
			if err != nil {
				return fmt.Errorf("%s: %w", list[i].name, err)
			}
			if round > 0 {
				table.Rows[i].Runs = append(table.Rows[i].Runs, run)
			}
		}
	}
	b.Results.Service = append(b.Results.Service, table)
	return nil
}

// askServer makes one measurement of a contestant.
func askServer(
	ctx context.Context, s *site.Site, c *serviceContender, at site.RunningServer,
) (run harness.ServiceRun, err error) {
	f := &site.OpenFront{RunningServer: at}
	before, err := s.Look(f)
	if err != nil {
		return run, err
	}
	a, err := c.run(ctx, s, at)
	if err != nil {
		return run, err
	}
	after, err := s.Look(f)
	if err != nil {
		return run, err
	}
	if a.Ops < 1 || a.Took <= 0 {
		return run, fmt.Errorf("%d decisions in %v: want some", a.Ops, a.Took)
	}
	used := (after.Cpu - before.Cpu).Seconds()
	return harness.ServiceRun{
		Rate: float64(a.Ops) / a.Took.Seconds(), P50: float64(a.P50), P99: float64(a.P99),
		CPU: used * 1e6 / float64(a.Ops), Busy: used / a.Took.Seconds(), LoadBusy: after.Load.Since(before.Load).Share(),
	}, nil
}

func p50Of(r harness.ServiceRun) float64 { return r.P50 }

func loadBusyOf(r harness.ServiceRun) float64 { return r.LoadBusy }

func reportService(b *strings.Builder, r *harness.Results) {
	for i := range r.Service {
		t := &r.Service[i]
		fmt.Fprintf(b, "\n### %s\n\n", t.Title)
		if t.Timed {
			reportTimes(b, t)
		} else {
			reportRates(b, t)
		}
	}
}

func reportRates(b *strings.Builder, t *harness.ServiceTable) {
	b.WriteString("| server | decisions/s | quartiles | headgate against it | quartiles | p50 | p99 | CPU a decision, µs | it ran | the load's core busy |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	us := t.Row("headgate")
	sorted := slices.Clone(t.Rows)
	slices.SortFunc(sorted, func(x, y harness.ServiceRow) int {
		return int(y.Spread(harness.RateOf).Median - x.Spread(harness.RateOf).Median)
	})
	for _, row := range sorted {
		rate, against, quartiles := row.Spread(harness.RateOf), "", ""
		if us != nil && row.Contender != us.Contender {
			ratio := us.Against(&row, harness.RateOf)
			against, quartiles = fmt.Sprintf("%.2f ×", ratio.Median), fmt.Sprintf("%.2f–%.2f", ratio.Q1, ratio.Q3)
		}
		fmt.Fprintf(b, "| %s | %s | %s–%s | %s | %s | %s | %s | %.2f | %.0f %% | %.0f %% |\n", row.Title,
			harness.HumanRate(rate.Median),
			harness.HumanRate(rate.Q1), harness.HumanRate(rate.Q3), against, quartiles, measuredTime(
				row.Spread(p50Of).Median), measuredTime(row.Spread(harness.P99Of).Median),
			row.Spread(harness.CPUOf).Median, 100*row.Spread(harness.BusyOf).Median, 100*row.Spread(loadBusyOf).Median)
	}
}

// measuredTime formats a time, or returns an empty string if the time was not measured.
func measuredTime(ns float64) string {
	if ns == 0 {
		return ""
	}
	return harness.HumanDuration(ns)
}

func reportTimes(b *strings.Builder, t *harness.ServiceTable) {
	b.WriteString("| server | p50 | p99 | quartiles of p99 | CPU a decision, µs |\n|---|--:|--:|--:|--:|\n")
	for i := range t.Rows {
		row := &t.Rows[i]
		tail := row.Spread(harness.P99Of)
		fmt.Fprintf(b, "| %s | %s | %s | %s–%s | %.2f |\n", row.Title, harness.HumanDuration(row.Spread(p50Of).Median),
			harness.HumanDuration(tail.Median),
			harness.HumanDuration(tail.Q1), harness.HumanDuration(tail.Q3), row.Spread(harness.CPUOf).Median)
	}
}
