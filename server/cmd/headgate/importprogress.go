package main

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
)

// The times between two lines of progress: on a terminal, where a line replaces the last one, and in a log.
const (
	progressEvery    = 250 * time.Millisecond
	progressEveryLog = 5 * time.Second
)

// An importProgress passes on the clients of an import, one per line, and shows how many it has passed on.
type importProgress struct {
	from     io.Reader
	to       io.Writer
	terminal bool
	now      func() time.Time

	clients     int
	start, last time.Time
}

func newImportProgress(from io.Reader, to io.Writer, now func() time.Time) *importProgress {
	began := now()
	return &importProgress{from: from, to: to, terminal: isTerminal(to), now: now, start: began, last: began}
}

// Read implements io.Reader.
func (p *importProgress) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	p.clients += bytes.Count(b[:n], []byte{'\n'})
	every := progressEveryLog
	if p.terminal {
		every = progressEvery
	}
	if now := p.now(); now.Sub(p.last) >= every {
		p.last = now
		p.show(now.Sub(p.start))
	}
	return n, err
}

func (p *importProgress) show(elapsed time.Duration) {
	text := fmt.Sprintf("sent %s in %v", output.Plural(p.clients, "client"), elapsed.Round(100*time.Millisecond))
	if p.terminal {
		text = "\r\x1b[K" + text
	} else {
		text = "headgate: " + text + "\n"
	}
	_, _ = io.WriteString(p.to, text) // progress that cannot be shown does not matter
}

// clear removes the line of progress from a terminal.
func (p *importProgress) clear() {
	if p.terminal {
		_, _ = io.WriteString(p.to, "\r\x1b[K")
	}
}
