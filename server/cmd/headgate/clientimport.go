package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/remote"
)

const (
	// importBatch is the number of lines of one call, as many as the rules service commits at once. A batch with long lines
	// ends after maxImportBatch bytes.
	importBatch    = 5_000
	maxImportBatch = 4 << 20
	// The times between two lines of progress: on a terminal, where a line replaces the last one, and in a log.
	progressEvery    = 250 * time.Millisecond
	progressEveryLog = 5 * time.Second
)

// A clientImport registers clients, one line of JSON each, in batches: a call that has all of them would show progress
// only of the network buffers.
type clientImport struct {
	send     func(ctx context.Context, lines io.Reader) (*edit.Imported, error)
	progress io.Writer
	terminal bool
	now      func() time.Time
}

// run imports all lines. If a batch fails, it returns the sum of the batches in front of it, too.
func (i *clientImport) run(ctx context.Context, from io.Reader) (*edit.Imported, error) {
	sum := &edit.Imported{}
	start := i.now()
	last, lines := start, 0
	in := bufio.NewReaderSize(from, 64<<10)
	for first := true; ; first = false {
		batch, n, err := readBatch(in)
		if err != nil {
			return sum, err
		}
		if n == 0 && !first { // an empty import is a call, too: the rules service says what is wrong
			i.clear()
			return sum, nil
		}
		done, err := i.send(ctx, bytes.NewReader(batch))
		if err != nil {
			i.clear()
			return addFailed(sum, err, lines), err
		}
		addImported(sum, done)
		lines += n
		every := progressEveryLog
		if i.terminal {
			every = progressEvery
		}
		if now := i.now(); now.Sub(last) >= every {
			last = now
			i.show(sum.Clients, now.Sub(start))
		}
	}
}

// readBatch returns the next lines, and how many they are.
func readBatch(in *bufio.Reader) (batch []byte, lines int, err error) {
	for lines < importBatch && len(batch) < maxImportBatch {
		part, err := in.ReadSlice('\n')
		batch = append(batch, part...)
		switch {
		case err == nil:
			lines++
		case errors.Is(err, io.EOF):
			if len(part) > 0 {
				lines++
			}
			return batch, lines, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, 0, fmt.Errorf("read clients: %w", err)
		}
	}
	return batch, lines, nil
}

// addFailed returns the sum with the part of a failed batch that was registered, and corrects the lines in the error.
func addFailed(sum *edit.Imported, err error, lines int) *edit.Imported {
	var failed *remote.Error
	if !errors.As(err, &failed) {
		return sum
	}
	for k := range failed.Errors {
		if failed.Errors[k].Line > 0 {
			failed.Errors[k].Line += lines
		}
	}
	if failed.Import != nil {
		addImported(sum, failed.Import)
	}
	return sum
}

func addImported(sum, done *edit.Imported) {
	sum.Revision = done.Revision
	sum.Clients += done.Clients
	sum.Created += done.Created
	sum.Updated += done.Updated
	sum.Deleted += done.Deleted
	sum.Unchanged += done.Unchanged
	sum.Changes = append(sum.Changes, done.Changes...)
}

func (i *clientImport) show(clients int, elapsed time.Duration) {
	text := fmt.Sprintf("imported %s in %v", output.Plural(clients, "client"), elapsed.Round(100*time.Millisecond))
	if i.terminal {
		text = "\r\x1b[K" + text
	} else {
		text = "headgate: " + text + "\n"
	}
	_, _ = io.WriteString(i.progress, text) // progress that cannot be shown does not matter
}

// clear removes the line of progress from a terminal.
func (i *clientImport) clear() {
	if i.terminal {
		_, _ = io.WriteString(i.progress, "\r\x1b[K")
	}
}
