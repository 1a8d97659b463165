// Package cli contains the code that the commands of headgate share: the program's input, output and exit codes, calls
// to a rules service, and flags.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
)

// A Program has the input, output and environment of the command.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string // NAME=value, as os.Environ returns it
	Version        string   // of this build
}

// Exit codes of the commands.
const (
	ExitOK      = 0
	ExitFailure = 1 // an error, or lint or test rejected the rules
	// ExitDiffers means that files differ from the rules service (rules diff), that requests failed or were not sent (bench
	// load), or that a step took another time than the limit implies (bench ramp).
	ExitDiffers     = 2
	ExitDenied      = 3   // check, explain: the request is denied
	ExitInterrupted = 130 // Ctrl-C ended the command
)

// An ExitError is the exit code of a command that has already printed the reason.
type ExitError int

func (e ExitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// Printf writes to standard output. It ignores errors, which mean that the reader of the output has ended.
func (p *Program) Printf(format string, args ...any) { _, _ = fmt.Fprintf(p.Stdout, format, args...) }

// Show writes value as JSON or YAML, or rows as a table, to standard output.
func (p *Program) Show(f output.Format, value any, header []string, rows [][]string) error {
	return output.Write(p.Stdout, f, value, header, rows)
}

// ShowOrPrint writes value as JSON or YAML or, if f is Table, the formatted text to standard output.
func (p *Program) ShowOrPrint(f output.Format, value any, format string, args ...any) error {
	if f != output.Table {
		return p.Show(f, value, nil, nil)
	}
	p.Printf(format, args...)
	return nil
}

// Getenv returns the value of an environment variable, or "".
func (p *Program) Getenv(name string) string {
	for i := len(p.Environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(p.Environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// UntilInterrupted returns a context that ends with Ctrl-C or SIGTERM. A second signal then ends the process
// immediately.
func UntilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
