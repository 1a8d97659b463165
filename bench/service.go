package main

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
)

// This file is the frame of the part "service": servers that decide for others over a protocol, each beside what that
// protocol can do at best. What is measured stands in a file for each protocol.

// serviceScenarios are those of all protocols.
func serviceScenarios() []scenario {
	return slices.Concat(respScenarios(), grpcScenarios(), rlsScenarios(), httpScenarios())
}

// serviceServers are the servers that are written here, by name. A child runs one.
func serviceServers() map[string]serviceServer {
	all := map[string]serviceServer{}
	for _, some := range []map[string]serviceServer{respServers(), grpcServers(), rlsServers(), httpServers()} {
		maps.Copy(all, some)
	}
	return all
}

// serviceBars holds the results of all protocols against their bars.
func serviceBars(r *results) []bar {
	return slices.Concat(respBars(r), grpcBars(r), rlsBars(r), httpBars(r))
}

// serviceMethod says how servers are compared.
func serviceMethod(b *strings.Builder, r *results) {
	fmt.Fprintf(b, `- One core is the measured server's alone, another that of the load. All servers stay alive and take turns, %d rounds after one
  that only warms, in a new random order every round; those that wait sleep. Tables show medians over the rounds and the
  quartiles. "headgate against it" is taken round by round, and the median of that is what bars are held against.
- headgate counts in memory. It has %d MiB of ballast in its heap, as the program has, and so have all Go servers here.
`, r.Sizes.GatewayRounds, ballastBytes>>20)
	respMethod(b, r)
	grpcMethod(b, r)
	rlsMethod(b, r)
	httpMethod(b, r)
}

func serviceVersions(ctx context.Context) []moduleVersion {
	return slices.Concat(respVersions(ctx), rlsVersions())
}

// A serviceServer is a server of a protocol. It is given where to listen and what it was told on the command line, and
// returns how to end it.
type serviceServer func(l net.Listener, target string) (stop func() error, err error)

// runServer is a child that is a server until in ends.
func runServer(name, target string, in io.Reader, out *json.Encoder) error {
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
	err = out.Encode(listening{Address: l.Addr().String()})
	if err == nil {
		_, _ = io.Copy(io.Discard, in) // however it ends, it ends
	}
	return errors.Join(err, stop())
}

// openServer starts one of serviceServers in a process of its own.
func openServer(name, target string) func(context.Context, *site) (place, error) {
	return func(ctx context.Context, s *site) (place, error) {
		return s.startChild(ctx, s.frontCore, childFlags{mode: childServer, contender: name, target: target})
	}
}

// A contestant is who is measured in the part "service": a server, and what is asked of it.
type contestant struct {
	// name is short and unique in its scenario, title is for tables.
	name, title string
	role        role
	// server names whom to start with open. Contestants with the same server share it.
	server string
	open   func(context.Context, *site) (place, error)
	// run measures once.
	run func(context.Context, *site, place) (asking, error)
}

// An asking is one measurement: what the load saw.
type asking struct {
	Ops      int64 // decisions
	Took     time.Duration
	P50, P99 time.Duration // 0 if nobody has measured it
}

// A serviceRun is an asking and what the processes used for it.
type serviceRun struct {
	Rate     float64 // decisions a second
	P50, P99 float64 // ns
	CPU      float64 // that the server used for a decision, in µs
	Busy     float64 // which part of the time it ran
	LoadBusy float64 // and the core of the load
}

// A serviceTable is one scenario of the part.
type serviceTable struct {
	ID, Title string
	// Timed tells that it is about how long answers take, and not about how many there are.
	Timed bool
	Rows  []serviceRow
}

// A serviceRow is one contestant in it, round by round, the same rounds for all.
type serviceRow struct {
	Contender, Title string
	Role             role
	Runs             []serviceRun
}

// runService measures contestants round by round.
func runService(ctx context.Context, b *bench, table serviceTable, list []contestant) error {
	s, err := openSite(ctx, b)
	if err != nil {
		return err
	}
	defer s.close()
	at := map[string]place{}
	for _, c := range list {
		if _, open := at[c.server]; open {
			continue
		}
		b.progress.at(0, table.ID+", opening", c.server)
		p, err := c.open(ctx, s)
		if err != nil {
			return fmt.Errorf("open %s: %w", c.server, err)
		}
		at[c.server] = p
	}
	for _, c := range list {
		table.Rows = append(table.Rows, serviceRow{Contender: c.name, Title: c.title, Role: c.role})
	}
	rounds := b.sizes.GatewayRounds
	step := 0
	for round := range rounds + 1 {
		stage := fmt.Sprintf("%s, round %d of %d", table.ID, round, rounds)
		if round == 0 {
			stage = table.ID + ", warming"
		}
		for _, i := range rand.Perm(len(list)) {
			b.progress.at(float64(step)/float64((rounds+1)*len(list)), stage, list[i].name)
			step++
			run, err := s.askServer(ctx, &list[i], at[list[i].server])
			if err != nil {
				return fmt.Errorf("%s: %w", list[i].name, err)
			}
			if round > 0 {
				table.Rows[i].Runs = append(table.Rows[i].Runs, run)
			}
		}
	}
	b.results.Service = append(b.results.Service, table)
	return nil
}

// askServer measures a contestant once.
func (s *site) askServer(ctx context.Context, c *contestant, at place) (run serviceRun, err error) {
	f := &openFront{place: at}
	before, err := s.look(f)
	if err != nil {
		return run, err
	}
	a, err := c.run(ctx, s, at)
	if err != nil {
		return run, err
	}
	after, err := s.look(f)
	if err != nil {
		return run, err
	}
	if a.Ops < 1 || a.Took <= 0 {
		return run, fmt.Errorf("%d decisions in %v: want some", a.Ops, a.Took)
	}
	used := (after.cpu - before.cpu).Seconds()
	return serviceRun{
		Rate: float64(a.Ops) / a.Took.Seconds(), P50: float64(a.P50), P99: float64(a.P99),
		CPU: used * 1e6 / float64(a.Ops), Busy: used / a.Took.Seconds(), LoadBusy: after.load.since(before.load).share(),
	}, nil
}

// service returns a table of that name, or nil.
func (r *results) service(id string) *serviceTable {
	for i := range r.Service {
		if r.Service[i].ID == id {
			return &r.Service[i]
		}
	}
	return nil
}

func (t *serviceTable) row(name string) *serviceRow {
	if t == nil {
		return nil
	}
	for i := range t.Rows {
		if t.Rows[i].Contender == name {
			return &t.Rows[i]
		}
	}
	return nil
}

// The figures of a run that tables and bars are made of.
func rateOf(r serviceRun) float64     { return r.Rate }
func p50Of(r serviceRun) float64      { return r.P50 }
func p99Of(r serviceRun) float64      { return r.P99 }
func cpuOf(r serviceRun) float64      { return r.CPU }
func busyOf(r serviceRun) float64     { return r.Busy }
func loadBusyOf(r serviceRun) float64 { return r.LoadBusy }

func (r *serviceRow) spread(of func(serviceRun) float64) spread {
	var samples []float64
	for _, run := range r.Runs {
		samples = append(samples, of(run))
	}
	return spreadOf(samples)
}

// against returns how many times another's figure one's own is, round by round.
func (r *serviceRow) against(other *serviceRow, of func(serviceRun) float64) spread {
	var ratios []float64
	for i := range min(len(r.Runs), len(other.Runs)) {
		ratios = append(ratios, of(r.Runs[i])/of(other.Runs[i]))
	}
	return spreadOf(ratios)
}

// ratesAbove is the bar of making at least so many times as many decisions a second as another.
func (t *serviceTable) ratesAbove(us, them, what string, times float64, note string) bar {
	want := fmt.Sprintf("≥ %g × %s%s", times, t.title(them), note)
	a, b := t.row(us), t.row(them)
	if a == nil || b == nil {
		return unmeasured(what, want)
	}
	ratio := a.against(b, rateOf)
	measured := fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s/s", ratio.Median, ratio.Q1, ratio.Q3,
		humanRate(a.spread(rateOf).Median), humanRate(b.spread(rateOf).Median))
	const atItsEnd = 0.9
	if a.spread(busyOf).Median < atItsEnd { // it could have answered more if it had been asked more
		measured += fmt.Sprintf("; headgate was not at its end, by CPU %.2f ×", b.against(a, cpuOf).Median)
	}
	return judged(what, want, measured+")", ratio.Median >= times)
}

// ratesAboveByCPU is the same bar for each second of the server's processor time.
func (t *serviceTable) ratesAboveByCPU(us, them, what string, times float64, note string) bar {
	want := fmt.Sprintf("≥ %g × %s, for each CPU second%s", times, t.title(them), note)
	a, b := t.row(us), t.row(them)
	if a == nil || b == nil {
		return unmeasured(what, want)
	}
	ratio := b.against(a, cpuOf)
	return judged(what, want, fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %.2f against %.2f µs)", ratio.Median, ratio.Q1, ratio.Q3,
		a.spread(cpuOf).Median, b.spread(cpuOf).Median), ratio.Median >= times)
}

// tailBelow is the bar of a p99 of at most so many times another's.
func (t *serviceTable) tailBelow(us, them, what string, times float64) bar {
	want := fmt.Sprintf("≤ %g × %s", times, t.title(them))
	a, b := t.row(us), t.row(them)
	if a == nil || b == nil {
		return unmeasured(what, want)
	}
	ratio := a.against(b, p99Of)
	return judged(what, want, fmt.Sprintf("%.2f × (quartiles %.2f–%.2f; %s against %s)", ratio.Median, ratio.Q1, ratio.Q3,
		humanDuration(a.spread(p99Of).Median), humanDuration(b.spread(p99Of).Median)), ratio.Median <= times)
}

// title returns how a bar calls a contestant.
func (t *serviceTable) title(name string) string {
	if row := t.row(name); row != nil {
		return row.Title
	}
	return name
}

func reportService(b *strings.Builder, r *results) {
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

func reportRates(b *strings.Builder, t *serviceTable) {
	b.WriteString("| server | decisions/s | quartiles | headgate against it | quartiles | p50 | p99 | CPU a decision, µs | it ran | the load's core busy |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	us := t.row("headgate")
	sorted := slices.Clone(t.Rows)
	slices.SortFunc(sorted, func(x, y serviceRow) int { return int(y.spread(rateOf).Median - x.spread(rateOf).Median) })
	for _, row := range sorted {
		rate, against, quartiles := row.spread(rateOf), "", ""
		if us != nil && row.Contender != us.Contender {
			ratio := us.against(&row, rateOf)
			against, quartiles = fmt.Sprintf("%.2f ×", ratio.Median), fmt.Sprintf("%.2f–%.2f", ratio.Q1, ratio.Q3)
		}
		fmt.Fprintf(b, "| %s | %s | %s–%s | %s | %s | %s | %s | %.2f | %.0f %% | %.0f %% |\n", row.Title, humanRate(rate.Median),
			humanRate(rate.Q1), humanRate(rate.Q3), against, quartiles, measuredTime(row.spread(p50Of).Median), measuredTime(row.spread(p99Of).Median),
			row.spread(cpuOf).Median, 100*row.spread(busyOf).Median, 100*row.spread(loadBusyOf).Median)
	}
}

// measuredTime writes a time, and nothing for one that nobody has measured.
func measuredTime(ns float64) string {
	if ns == 0 {
		return ""
	}
	return humanDuration(ns)
}

func reportTimes(b *strings.Builder, t *serviceTable) {
	b.WriteString("| server | p50 | p99 | quartiles of p99 | CPU a decision, µs |\n|---|--:|--:|--:|--:|\n")
	for i := range t.Rows {
		row := &t.Rows[i]
		tail := row.spread(p99Of)
		fmt.Fprintf(b, "| %s | %s | %s | %s–%s | %.2f |\n", row.Title, humanDuration(row.spread(p50Of).Median), humanDuration(tail.Median),
			humanDuration(tail.Q1), humanDuration(tail.Q3), row.spread(cpuOf).Median)
	}
}
