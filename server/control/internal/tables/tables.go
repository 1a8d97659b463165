// Package tables has helpers that all implementations of control.DB use.
package tables

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
)

// ForNodes is the list of the kinds of objects that nodes receive, in SQL.
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

// TooMany returns the error of a call that would return more than limit changed objects. The caller should fetch a
// snapshot instead.
func TooMany(namespace string, after int64, limit int) error {
	return fmt.Errorf("more than %d objects of namespace %s were changed after %d: %w", limit, namespace, after,
		control.ErrPruned)
}

// The timeouts of calls whose context has no deadline.
const (
	CallTimeout   = 30 * time.Second
	StreamTimeout = 10 * time.Minute // for calls that transfer all content
)

// WithTimeout adds a timeout to a context without a deadline.
func WithTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// TimeOf converts a stored time, in microseconds since 1970.
func TimeOf(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
