// Package tables has the parts that the databases of rules share.
package tables

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/server/control"
)

// ForNodes is the SQL list of the kinds that nodes get.
const ForNodes = "('rule', 'client', 'override')"

// PruneBatch is the number of changes pruned at once: other writes run in between.
const PruneBatch = 500

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

// Snapshot calls each for the kinds that nodes get, in snapshot order.
func Snapshot(each func(control.Kind) error) error {
	for _, kind := range control.Kinds() {
		if !kind.ForNodes() {
			continue
		}
		if err := each(kind); err != nil {
			return err
		}
	}
	return nil
}

// Pruned returns the error for changes after a revision that is not in the log.
func Pruned(namespace string, after int64) error {
	return fmt.Errorf("changes of namespace %s after %d: %w", namespace, after, control.ErrPruned)
}

// TooMany returns the error for too many changes: a snapshot is better.
func TooMany(namespace string, after int64, most int) error {
	return fmt.Errorf("more than %d objects of namespace %s were changed after %d: %w", most, namespace, after,
		control.ErrPruned)
}

// Prune deletes changes batch by batch and returns their number. Each batch begins after a revision, and returns how
// many changes it deleted and the last revision it checked, 0 if that was all.
func Prune(batch func(after int64) (pruned int, next int64, err error)) (int, error) {
	total := 0
	for after := int64(0); ; {
		pruned, next, err := batch(after)
		if total += pruned; err != nil || next == 0 {
			return total, err
		}
		after = next
	}
}
