package harness

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress shows the progress of the run. On a terminal it redraws one line; otherwise it prints a line when a stage
// begins.
type progress struct {
	out      io.Writer
	terminal bool
	now      func() time.Time
	started  time.Time

	mu     sync.Mutex
	total  float64 // expected seconds of all scenarios
	done   float64 // of those behind
	width  float64 // of the one under way
	within float64 // how far that one is
	stage  string
	detail string

	stop chan struct{}
	gone sync.WaitGroup
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// NewProgress starts to show the progress. End must be called.
func NewProgress(out io.Writer, terminal bool, now func() time.Time, total float64) *progress {
	p := &progress{out: out, terminal: terminal, now: now, started: now(), total: total, stop: make(chan struct{})}
	if terminal {
		p.gone.Go(p.redraw)
	}
	return p
}

func (p *progress) redraw() {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// scenario ends the previous scenario and begins one with an expected duration in seconds.
func (p *progress) scenario(seconds float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += p.width
	p.width, p.within = seconds, 0
}

// At shows the current step, and which share of the scenario is done.
func (p *progress) At(part float64, stage, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := stage != p.stage
	p.within, p.stage, p.detail = part, stage, detail
	switch {
	case p.terminal:
		p.draw()
	case fresh:
		fmt.Fprintf(p.out, "%3.0f %%  %s%s\n", 100*p.part(), stage, p.left())
	}
}

// End clears the line.
func (p *progress) End() {
	close(p.stop)
	p.gone.Wait()
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

func (p *progress) part() float64 {
	if p.total == 0 {
		return 0
	}
	return min(1, (p.done+p.within*p.width)/p.total)
}

// left returns the remaining time at the pace so far. It returns nothing before there is a pace.
func (p *progress) left() string {
	part, elapsed := p.part(), p.now().Sub(p.started)
	if part < 0.01 || elapsed < time.Second {
		return ""
	}
	rest := time.Duration(float64(elapsed) * (1 - part) / part).Round(time.Second)
	return ", " + rest.String() + " left"
}

func (p *progress) draw() {
	const cells = 24
	part := p.part()
	full := int(part * cells)
	text := p.stage
	if p.detail != "" {
		text += ": " + p.detail
	}
	fmt.Fprintf(p.out, "\r\x1b[K[%s%s] %3.0f %%  %s%s",
		strings.Repeat("#", full), strings.Repeat(".", cells-full), 100*part, text, p.left())
}
