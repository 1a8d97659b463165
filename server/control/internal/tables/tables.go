// Package tables has the parts that the databases of rules share.
package tables

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
)

// ForNodes is the SQL list of the kinds that nodes get.
const ForNodes = "('rule', 'client', 'override', 'suspension')"

// Collect returns a function that appends objects to a list.
func Collect(into *[]control.Object) func(*control.Object) error {
	return func(o *control.Object) error {
		*into = append(*into, *o)
		return nil
	}
}

// Lower turns ASCII letters to lower case, and no others.
func Lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// Pruned returns the error for changes after a revision that is not in the log.
func Pruned(namespace string, after int64) error {
	return fmt.Errorf("changes of namespace %s after %d: %w", namespace, after, control.ErrPruned)
}

// TooMany returns the error for more changed objects than a call may return. The caller should fetch a snapshot.
func TooMany(namespace string, after int64, limit int) error {
	return fmt.Errorf("more than %d objects of namespace %s were changed after %d: %w", limit, namespace, after,
		control.ErrPruned)
}

// Timeouts of calls without a deadline.
const (
	CallTimeout   = 30 * time.Second
	StreamTimeout = 10 * time.Minute // of calls that transfer everything
)

// WithTimeout adds a timeout to a context without a deadline.
func WithTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// TimeOf converts a stored time.
func TimeOf(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
