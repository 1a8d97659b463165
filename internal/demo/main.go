// Command demo shows Headgate at work: a noisy neighbour that is held to its limit without effect on others, one burst
// through every algorithm, and the decisions per second on this machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `Usage: go run ./internal/demo [-for 6s]

Shows the library at work, with a real store:
  1  a noisy neighbour: one client floods, three behave; in real time
  2  one burst through every algorithm, and what passes; in virtual time
  3  how many decisions a second this machine makes

  -for TIME   how long the noisy neighbour keeps at it (default 6s)
  -h, --help  this text

In a terminal the view is live and in colour. Piped, or with NO_COLOR set, it is
plain lines. Ctrl-C ends it at once.
`

const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C need not wait for anything
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr, isTerminal(os.Stdout)))
}

// run is main with its surroundings passed in; live reports whether stdout supports redrawing and colours.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, live bool) int {
	d := demo{
		screen:  &screen{w: stdout, live: live},
		keys:    1_000_000,
		measure: time.Second,
	}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.DurationVar(&d.flood, "for", 6*time.Second, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "demo: %v\n\n%s", err, usage)
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "demo: unexpected %q\n\n%s", flags.Arg(0), usage)
		return exitUsage
	case d.flood <= 0:
		fmt.Fprintf(stderr, "demo: -for %v: want a time such as 6s\n", d.flood)
		return exitUsage
	}
	switch err := d.show(ctx); {
	case ctx.Err() != nil:
		d.wipe()
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(stderr, "demo:", err)
		return exitFailed
	}
	return 0
}

// A demo has the settings of the scenes and the screen.
type demo struct {
	*screen
	flood   time.Duration // how long the noisy neighbour floods
	keys    int           // number of keys for the measurement
	measure time.Duration // duration of the measurement
}

// show plays the scenes one after the other, until the end or until ctx is done.
func (d *demo) show(ctx context.Context) error {
	d.line(d.paint(bold, "Headgate") + " decides how much of a service each client may take.")
	for _, scene := range []func(context.Context) error{
		d.showNeighbour, d.showAlgorithms, d.showSpeed, d.showNext,
	} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := scene(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tryIt shows the library in a few lines; README.md has the whole program.
var tryIt = []string{
	`store, err := memstore.New(memstore.Options{})`,
	`perAddress, err := store.Bind(headgate.MustParseLimit("10/s burst 20"))`,
	`if err != nil || !perAddress.Allow(host) {`,
	`	http.Error(w, "too many requests", http.StatusTooManyRequests)`,
	`	return`,
	`}`,
}

func (d *demo) showNext(context.Context) error {
	d.title("Now yours")
	for _, line := range tryIt {
		d.line("    " + d.paint(cyan, tabs.Replace(line)))
	}
	d.line("")
	d.line("  README.md has the whole program, docs/algorithms.md says which algorithm when.")
	return nil
}

// closeStore closes a store. That fails only if it was closed already.
func closeStore(s io.Closer) { s.Close() }
