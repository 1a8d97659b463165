// Package tour demonstrates Headgate in a terminal, in four scenes: a noisy neighbour that does not affect other
// clients, one burst decided by every algorithm, the worked examples of the documentation, and a measurement of the
// decisions per second on this machine.
package tour

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/server/internal/terminal"
)

// Options are the settings of Run.
type Options struct {
	// Out receives the text.
	Out io.Writer
	// Live draws in color and updates lines in place. Out must be a terminal then. Default: plain lines.
	Live bool
	// Flood is the duration of the first scene, in which a client floods the limiter. Default DefaultFlood.
	Flood time.Duration
}

// DefaultFlood is the default of Options.Flood.
const DefaultFlood = 6 * time.Second

func (o *Options) validate() error {
	if o.Flood < 0 {
		return fmt.Errorf("the noisy neighbour floods for %v: want a time such as 6s", o.Flood)
	}
	if o.Flood == 0 {
		o.Flood = DefaultFlood
	}
	return nil
}

// Run shows all scenes. If ctx ends first, Run returns the error of ctx.
func Run(ctx context.Context, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	d := demo{
		Screen:  &terminal.Screen{W: o.Out, Live: o.Live},
		flood:   o.Flood,
		keys:    1_000_000,
		measure: time.Second,
	}
	err := d.show(ctx)
	if ctx.Err() != nil {
		d.ClearEcho()
		return ctx.Err()
	}
	return err
}

// A demo has the settings of the scenes and the screen. No line is wider than 80 columns.
type demo struct {
	*terminal.Screen
	flood   time.Duration // how long the noisy neighbour floods
	keys    int           // number of keys for the measurement
	measure time.Duration // duration of the measurement
}

// show shows the scenes in order until ctx is done.
func (d *demo) show(ctx context.Context) error {
	d.Line(d.Paint(terminal.Bold, "Headgate") + " decides how much of a service each client may take.")
	for _, scene := range []func(context.Context) error{
		d.showNeighbour, d.showAlgorithms, d.showWorkedExamples, d.showSpeed, d.showNext,
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

// tryIt is an example of the library. README.md has the whole program.
var tryIt = []string{
	`limit := headgate.MustParseLimit("10/s burst 20")`,
	`perAddress := headgate.MustBind(memstore.MustNew(memstore.Options{}), limit)`,
	`if !perAddress.Allow(address) { // an empty address is denied`,
	`    http.Error(w, "too many requests", http.StatusTooManyRequests)`,
	`    return`,
	`}`,
}

func (d *demo) showNext(context.Context) error {
	d.Title("Now yours")
	for _, line := range tryIt {
		d.Line("    " + d.Paint(terminal.Cyan, line))
	}
	d.Line("")
	d.Line("  README.md has the whole program, docs/algorithms.md says which algorithm when.")
	return nil
}

// closeStore closes a store. It ignores the error, which only means that the store is already closed.
func closeStore(s io.Closer) { s.Close() }
