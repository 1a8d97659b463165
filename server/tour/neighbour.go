package tour

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/internal/terminal"
)

// showNeighbour is the first scene: one client floods the limiter without effect on the others.
func (d *demo) showNeighbour(ctx context.Context) error {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return err
	}
	defer closeStore(store)
	d.Title("1  A noisy neighbour")
	d.Line("  Each client may have " + d.Paint(terminal.Bold, perClient.String()) + ". noisy asks for 50 times that;")
	d.Line("  alice, bob and carol stay below it, carol with 12 at once every 2 s.")
	d.Line("")

	f := newFlood(store, d.flood)
	done := make(chan error, 1)
	go func() { done <- f.run(ctx) }()
	if d.Live {
		err = d.watch(f, done)
	} else {
		err = d.log(f, done)
	}
	if err != nil {
		return err
	}
	d.Line("")
	for _, sentence := range f.summary() {
		d.Line("  " + sentence)
	}
	return nil
}

// watch draws the flood repeatedly until it is done.
func (d *demo) watch(f *flood, done <-chan error) error {
	defer d.HideCursor()()
	const framesPerSecond = 12 // not a multiple of the clients' rates, so that frames show all their states
	ticker := time.NewTicker(time.Second / framesPerSecond)
	defer ticker.Stop()
	lastSecond := []sample{f.emptySample()} // oldest first
	for {
		var err error
		finished := false
		select {
		case err = <-done:
			finished = true
		case <-ticker.C:
		}
		now := f.sample()
		d.Draw(d.frame(f, now, lastSecond[0]))
		if finished {
			return err
		}
		if lastSecond = append(lastSecond, now); len(lastSecond) > framesPerSecond {
			lastSecond = lastSecond[1:]
		}
	}
}

// log writes one line per second until the flood is done.
func (d *demo) log(f *flood, done <-chan error) error {
	d.Line(f.logHead())
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	before := f.emptySample()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
		}
		now := f.sample()
		d.Line(f.logLine(now, before))
		before = now
	}
}

// maxAllowed returns the number of units that the limit allows while a client sends.
func (f *flood) maxAllowed(c *client) int64 {
	return perClient.Capacity() + int64(f.sendingTime(c)*time.Duration(perClient.Count)/perClient.Period)
}

// sendingTime returns the duration for which a client has sent requests.
func (f *flood) sendingTime(c *client) time.Duration { return max(0, f.elapsed-c.after) }

// summary describes the result.
func (f *flood) summary() []string {
	noisy, rest := f.clients[0], f.clients[1:]
	got := noisy.total()
	var quiet count
	names := make([]string, len(rest))
	for i, c := range rest {
		total := c.total()
		quiet.allowed += total.allowed
		quiet.denied += total.denied
		names[i] = c.name
	}
	last := len(names) - 1
	restNames := strings.Join(names[:last], ", ") + " and " + names[last]
	noticed := "and did not notice: 0 denied."
	if quiet.denied > 0 {
		noticed = fmt.Sprintf("and met their own limits: %s denied.", grouped(quiet.denied))
	}
	return []string{
		fmt.Sprintf("%s asked %s times in %.1f s: %s passed, %s denied.",
			noisy.name, grouped(got.asked()), f.sendingTime(noisy).Seconds(), grouped(got.allowed), grouped(got.denied)),
		fmt.Sprintf("Its limit, %d at once and %d a second, lets %s pass in that time.",
			perClient.Capacity(), perClient.Count, grouped(f.maxAllowed(noisy))),
		fmt.Sprintf("%s asked %s times %s", restNames, grouped(quiet.asked()), noticed),
	}
}
