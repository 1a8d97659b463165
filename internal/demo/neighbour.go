package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/memstore"
)

// showNeighbour is the first scene: one client floods, and the others don't notice.
func (d *demo) showNeighbour(ctx context.Context) error {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	f := &flood{clients: neighbours(), limiter: store, lasts: d.flood}
	d.title("1  A noisy neighbour")
	d.line("  noisy asks 500 times a second, alice 8 times, bob 5 times, carol 12 times at")
	d.line("  once every 2 s. Each of them may have " + d.paint(bold, perClient.String()) + ".")
	d.line("")

	done := make(chan error, 1)
	f.start = time.Now()
	go func() { done <- f.run(ctx) }()
	if d.live {
		err = d.watch(f, done)
	} else {
		err = d.log(f, done)
	}
	if err != nil {
		return err
	}
	d.line("")
	for _, sentence := range f.summary() {
		d.line("  " + sentence)
	}
	return nil
}

// watch draws the flood over and over until it is done.
func (d *demo) watch(f *flood, done <-chan error) error {
	defer d.still()()
	const frame, framesPerSecond = time.Second / 10, 10
	ticker := time.NewTicker(frame)
	defer ticker.Stop()
	var history [framesPerSecond + 1][]count // of the last second
	for n := 0; ; n++ {
		var err error
		finished := false
		select {
		case err = <-done:
			finished = true
		case <-ticker.C:
		}
		now := f.counts()
		copy(history[1:], history[:])
		history[0] = now
		lately := make([]count, len(now))
		before := history[min(n, framesPerSecond)]
		for i := range now {
			lately[i] = now[i].minus(before[i])
		}
		d.draw(d.frame(f, lately))
		if finished {
			return err
		}
	}
}

// log writes a line a second until the flood is done.
func (d *demo) log(f *flood, done <-chan error) error {
	for _, line := range logHead(f) {
		d.line(line)
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	before := make([]count, len(f.clients))
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
		}
		now := f.counts()
		d.line(logLine(f, before, now))
		before = now
	}
}

func (f *flood) counts() []count {
	counts := make([]count, len(f.clients))
	for i, c := range f.clients {
		counts[i] = c.total()
	}
	return counts
}

// most returns how many units a client can have had at the most, by its limit, in the time that it was there.
func (f *flood) most(c *client) int64 {
	return perClient.Capacity() + int64(f.there(c)*time.Duration(perClient.Count)/perClient.Period)
}

func (f *flood) there(c *client) time.Duration { return max(0, f.elapsed-c.after) }

// summary says what happened.
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
	them := strings.Join(names[:last], ", ") + " and " + names[last]
	noticed := "and did not notice: 0 denied."
	if quiet.denied > 0 {
		noticed = fmt.Sprintf("and met their own limits: %s denied.", grouped(quiet.denied))
	}
	return []string{
		fmt.Sprintf("%s asked %s times in %.1f s: %s passed, %s denied.",
			noisy.name, grouped(got.asked()), f.there(noisy).Seconds(), grouped(got.allowed), grouped(got.denied)),
		fmt.Sprintf("Its limit, %d at once and %d a second, lets %s pass in that time.",
			perClient.Capacity(), perClient.Count, grouped(f.most(noisy))),
		fmt.Sprintf("%s asked %s times %s", them, grouped(quiet.asked()), noticed),
	}
}
