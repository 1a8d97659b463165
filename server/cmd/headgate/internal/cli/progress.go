package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/headgate/headgate/server/internal/terminal"
)

// progressInterval is the minimum time between two updates of a progress line.
const progressInterval = 200 * time.Millisecond

// A ProgressLine shows the progress of a command in the last line of a terminal.
type ProgressLine struct {
	terminal  io.Writer // nil if the output is not a terminal
	lastShown time.Time
}

// NewProgressLine returns a progress line on w. It shows nothing if w is not a terminal.
func NewProgressLine(w io.Writer) *ProgressLine {
	if !terminal.IsCharDevice(w) {
		return &ProgressLine{}
	}
	return &ProgressLine{terminal: w}
}

// Printf replaces the text of the line, unless the last replacement was less than progressInterval ago.
func (l *ProgressLine) Printf(format string, args ...any) {
	if l.terminal == nil || time.Since(l.lastShown) < progressInterval {
		return
	}
	l.lastShown = time.Now()
	_, _ = fmt.Fprintf(l.terminal, "\r\x1b[K"+format, args...) // a failure to show progress does not matter
}

// Clear removes the line.
func (l *ProgressLine) Clear() {
	if l.terminal != nil {
		_, _ = io.WriteString(l.terminal, "\r\x1b[K")
	}
}

// ShowWait shows what is being waited for, and for how long, until stop is called, which removes the line.
func (l *ProgressLine) ShowWait(what string) (stop func()) {
	if l.terminal == nil {
		return func() {}
	}
	began, tick := time.Now(), time.NewTicker(time.Second)
	done := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		for {
			l.Printf("%s: %d s", what, int(time.Since(began).Seconds()))
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	return func() {
		tick.Stop()
		close(done)
		shown.Wait()
		l.Clear()
	}
}
