package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/stalls"
)

func main() {
	stalls.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// flags are the command-line flags.
type flags struct {
	rounds int
	part   string
	only   string
	quick  bool
	out    string
	json   string
	with   string
	child  harness.ChildFlags
}

func parseFlags(args []string, stderr io.Writer) (flags, error) {
	var f flags
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.IntVar(&f.rounds, "rounds", 11, "measure everybody this `often`")
	set.StringVar(&f.part, "part", "",
		"run only this `part`, core, rules, redis, faults, fleet, gateway, service or control, and leave the others in the report as they are")
	set.StringVar(&f.only, "only", "", "run the scenarios that match this `pattern`")
	set.BoolVar(&f.quick, "quick", false, "toy sizes, to see that everything runs")
	set.StringVar(&f.out, "out", "",
		"write the report to this `file`, - for standard output (default RESULTS.md, - with -only or -quick)")
	set.StringVar(&f.json, "json", "", "write the numbers of all parts to this `file` as well, as a list")
	set.StringVar(&f.with, "with", "",
		"add what an earlier run has written to this `file` with -json, of other scenarios of the same part")
	set.StringVar(&f.child.Mode, "child", "",
		"be a child process: mem, serve, table, growth, clients, rules, responder, front or server (the benchmark starts these itself)")
	set.StringVar(&f.child.Contender, "contender", "headgate", "the child's contender")
	set.StringVar(&f.child.Quota, "quota", "steady", "the child's quota: steady or open")
	set.IntVar(&f.child.Keys, "keys", 1_000_000, "the child's number of keys")
	set.IntVar(&f.child.Picks, "picks", 1<<22, "the length of the child's sequences, a power of two")
	set.StringVar(&f.child.At, "at", "", "the sizes at which a table child looks")
	set.Float64Var(&f.child.Seconds, "seconds", 0, "how long a growth child of the loop alone goes on at least")
	set.StringVar(&f.child.Target, "target", "", "the address of a front child's upstream")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("argument %q: want only flags", set.Arg(0))
	}
	if f.rounds < 1 {
		return f, fmt.Errorf("-rounds %d: want at least 1", f.rounds)
	}
	if f.out == "" {
		f.out = "RESULTS.md"
		if f.quick || f.only != "" {
			f.out = "-" // part of a report does not replace a whole one
		}
	}
	return f, nil
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer, stderr *os.File) error {
	f, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	if f.child.Mode != "" {
		return runChild(f.child, stdin, stdout)
	}
	var only *regexp.Regexp
	if f.only != "" {
		if only, err = regexp.Compile(f.only); err != nil {
			return fmt.Errorf("-only: %w", err)
		}
	}
	list, err := selectParts(only, f.part)
	if err != nil {
		return err
	}
	var all []*harness.Results
	var failures []string
	for _, p := range list {
		r, err := measure(ctx, f, p, stderr)
		if err != nil {
			return err
		}
		if f.with != "" {
			if err := r.JoinFile(p.Part, f.with); err != nil {
				return err
			}
		}
		if err := write(f, p.Part, r, stdout); err != nil {
			return err
		}
		all, failures = append(all, r), append(failures, r.Failures...)
	}
	if err := writeNumbers(f, all); err != nil {
		return err
	}
	if n := len(failures); n > 0 {
		return fmt.Errorf("%d scenarios failed; the first: %s", n, failures[0])
	}
	return nil
}

// measure runs the scenarios of a part and shows the progress.
func measure(ctx context.Context, f flags, p selectedPart, stderr *os.File) (*harness.Results, error) {
	size := harness.FullSizes(f.rounds)
	if f.quick {
		size = harness.QuickSizes(f.rounds)
	}
	var seconds float64
	for _, s := range p.list {
		seconds += s.Seconds
	}
	b := &harness.Bench{
		Part:  p.Part,
		Sizes: size,
		Results: &harness.Results{
			Part: p.Name, Started: time.Now(), Quick: f.quick, Only: f.only, Sizes: size,
			Machine: harness.ThisMachine(),
		},
		Progress: harness.NewProgress(stderr, harness.IsTerminal(stderr), time.Now, seconds),
	}
	if p.Versions != nil {
		b.Results.Versions = p.Versions(ctx)
	}
	defer b.Progress.End()
	defer b.RemoveHeadgate()
	if err := b.RunAll(ctx, p.list); err != nil {
		return nil, err
	}
	return b.Results, nil
}

// write writes the report of a part.
func write(f flags, p harness.Part, r *harness.Results, stdout io.Writer) error {
	report := harness.ReportOf(p, r)
	if f.out == "-" {
		if _, err := io.WriteString(stdout, report); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
		return nil
	}
	if err := publish(f.out, r.Part, report); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// writeNumbers writes the figures of all parts if a file for them was given.
func writeNumbers(f flags, all []*harness.Results) error {
	if f.json == "" {
		return nil
	}
	numbers, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return fmt.Errorf("write numbers: %w", err)
	}
	if err := os.WriteFile(f.json, append(numbers, '\n'), 0o644); err != nil {
		return fmt.Errorf("write numbers: %w", err)
	}
	return nil
}
