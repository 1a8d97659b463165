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

	"github.com/headgate/headgate/internal/stalls"
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

// flags are the command line.
type flags struct {
	rounds int
	part   string
	only   string
	quick  bool
	out    string
	json   string
	with   string
	child  childFlags
}

func parseFlags(args []string, stderr io.Writer) (flags, error) {
	var f flags
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.IntVar(&f.rounds, "rounds", 11, "measure everybody this `often`")
	set.StringVar(&f.part, "part", "", "run only this `part`, core, rules, redis, faults, fleet, gateway, service or control, and leave the others in the report as they are")
	set.StringVar(&f.only, "only", "", "run the scenarios that match this `pattern`")
	set.BoolVar(&f.quick, "quick", false, "toy sizes, to see that everything runs")
	set.StringVar(&f.out, "out", "", "write the report to this `file`, - for standard output (default RESULTS.md, - with -only or -quick)")
	set.StringVar(&f.json, "json", "", "write the numbers of all parts to this `file` as well, as a list")
	set.StringVar(&f.with, "with", "", "add what an earlier run has written to this `file` with -json, of other scenarios of the same part")
	set.StringVar(&f.child.mode, "child", "", "be a child process: mem, serve, table, growth, clients, rules, responder, front or server (the benchmark starts these itself)")
	set.StringVar(&f.child.contender, "contender", "headgate", "the child's contender")
	set.StringVar(&f.child.quota, "quota", "steady", "the child's quota: steady or open")
	set.IntVar(&f.child.keys, "keys", 1_000_000, "the child's number of keys")
	set.IntVar(&f.child.picks, "picks", 1<<22, "the length of the child's sequences, a power of two")
	set.StringVar(&f.child.at, "at", "", "the sizes at which a table child looks")
	set.Float64Var(&f.child.seconds, "seconds", 0, "how long a growth child of the loop alone goes on at least")
	set.StringVar(&f.child.target, "target", "", "the address of a front child's upstream")
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
	if f.child.mode != "" {
		return runChild(f.child, stdin, stdout)
	}
	var only *regexp.Regexp
	if f.only != "" {
		if only, err = regexp.Compile(f.only); err != nil {
			return fmt.Errorf("-only: %w", err)
		}
	}
	list, err := chosen(only, f.part)
	if err != nil {
		return err
	}
	var all []*results
	var failures []string
	for _, p := range list {
		r, err := measure(ctx, f, p, stderr)
		if err != nil {
			return err
		}
		if f.with != "" {
			if err := r.joinFile(f.with); err != nil {
				return err
			}
		}
		if err := write(f, r, stdout); err != nil {
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

// measure runs the scenarios of a part and shows how far it is.
func measure(ctx context.Context, f flags, p chosenPart, stderr *os.File) (*results, error) {
	size := fullSizes(f.rounds)
	if f.quick {
		size = quickSizes(f.rounds)
	}
	var seconds float64
	for _, s := range p.list {
		seconds += s.seconds
	}
	b := &bench{
		sizes: size,
		results: &results{
			Part: p.name, Started: time.Now(), Quick: f.quick, Only: f.only, Sizes: size,
			Machine: thisMachine(), Versions: p.versions(ctx),
		},
		progress: newProgress(stderr, isTerminal(stderr), time.Now, seconds),
	}
	defer b.progress.end()
	defer b.removeHeadgate()
	if err := b.runAll(ctx, p.list); err != nil {
		return nil, err
	}
	return b.results, nil
}

// write writes the report of a part.
func write(f flags, r *results, stdout io.Writer) error {
	report := reportOf(r)
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

// writeNumbers writes the numbers of all parts if they are wanted.
func writeNumbers(f flags, all []*results) error {
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
