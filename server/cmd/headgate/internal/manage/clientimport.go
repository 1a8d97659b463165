package manage

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/cmd/headgate/internal/rulesfile"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/internal/terminal"
)

const (
	// importBatch is the number of lines in one call. The rules service commits that many in one change. A batch with long
	// lines ends after maxImportBatch bytes.
	importBatch    = 5_000
	maxImportBatch = 4 << 20
	// The minimum times between two lines of progress, on a terminal and in a log.
	terminalProgressEvery = 250 * time.Millisecond
	logProgressEvery      = 5 * time.Second
)

func (p *program) importCommand(f *cli.ServerFlags) *cobra.Command {
	var prune bool
	var out output.Format
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Register many clients",
		Long: `Register many clients. FILE has a line of JSON for each client, or is a rules file with clients. FILE may be -
for standard input.

Clients that are already registered are updated. With --prune, clients that are not in the file are removed. The
command shows progress on standard error. If Ctrl-C or an error ends it, the clients that it has registered so far stay
registered.`,
		Example: `  headgate clients import clients.ndjson
  echo '{"id":"acme","limits":["500/s"]}' | headgate clients import -`,
		Args: cobra.ExactArgs(1),
	}
	c.RunE = p.WithClient(f, func(ctx context.Context, client *remote.Client, args []string) error {
		from, err := rulesfile.OpenClients(args[0], p.Stdin)
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }() // it was only read, so an error loses nothing
		var result *edit.Imported
		if prune { // in one call: the rules service must know all clients of the file to remove the others
			file := newUpload(from, "removing other clients")
			stop := file.show(p.Stderr)
			result, err = client.Import(ctx, file, true)
			stop()
		} else {
			send := func(ctx context.Context, lines io.Reader) (*edit.Imported, error) {
				return client.Import(ctx, lines, false)
			}
			in := &clientImport{send: send, progress: p.Stderr, terminal: terminal.IsCharDevice(p.Stderr), now: time.Now}
			if result, err = in.run(ctx, from); err != nil && result.Clients > 0 {
				_, _ = fmt.Fprintf(p.Stderr, "headgate: %s registered before the error\n", output.Plural(result.Clients, "client"))
			}
		}
		if err != nil {
			return err
		}
		return p.ShowOrPrint(out, result, "%s: created %d, updated %d, deleted %d, unchanged %d; revision %d\n",
			output.Plural(result.Clients, "client"), result.Created, result.Updated, result.Deleted, result.Unchanged,
			result.Revision)
	})
	c.Flags().BoolVar(&prune, "prune", false, "remove clients that are not in the file")
	cli.AddNoteFlag(c, f)
	output.AddFlag(c, &out)
	return c
}

// A clientImport registers clients in batches of lines, with one client in JSON per line, and shows progress after each
// batch. With a single call for all clients, it could only count bytes that were written to network buffers.
type clientImport struct {
	send     func(ctx context.Context, lines io.Reader) (*edit.Imported, error)
	progress io.Writer
	terminal bool
	now      func() time.Time
}

// run imports all lines and returns the sum of all batches. After an error, the sum has the batches before it.
func (i *clientImport) run(ctx context.Context, from io.Reader) (*edit.Imported, error) {
	sum := &edit.Imported{}
	start := i.now()
	lastShown, lines := start, 0
	in := bufio.NewReaderSize(from, 64<<10)
	for first := true; ; first = false {
		batch, n, err := readBatch(in)
		if err != nil {
			return sum, err
		}
		if n == 0 && !first { // send even an empty import, because the rules service returns the right error
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
		every := logProgressEvery
		if i.terminal {
			every = terminalProgressEvery
		}
		if now := i.now(); now.Sub(lastShown) >= every {
			lastShown = now
			i.show(sum.Clients, now.Sub(start))
		}
	}
}

// readBatch returns the next lines and their number.
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

// addFailed adds the clients of a failed batch that were registered to sum, and returns sum. It also converts line
// numbers in the error to line numbers in the file. lines is the number of lines before the batch.
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
	output.WriteProgress(i.progress, i.terminal, text)
}

// clear removes the line of progress from a terminal.
func (i *clientImport) clear() {
	if i.terminal {
		_, _ = io.WriteString(i.progress, "\r\x1b[K")
	}
}
