// Package tables is what databases of rules have in common, whatever they keep them in.
package tables

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/control"
)

// ForNodes are the kinds that nodes get, for a query in SQL.
const ForNodes = "('rule', 'client', 'override')"

// PruneBatch is how many changes are forgotten at once: others write in between.
const PruneBatch = 500

// Collect returns what appends objects to a list.
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

// Snapshot calls each for the kinds that nodes get, in the order of snapshots.
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

// Pruned is the error of who asks for changes after a revision that the log does not know.
func Pruned(namespace string, after int64) error {
	return fmt.Errorf("changes of namespace %s after %d: %w", namespace, after, control.ErrPruned)
}

// TooMany is the error of who asks for changes that are better told as a whole.
func TooMany(namespace string, after int64, most int) error {
	return fmt.Errorf("more than %d objects of namespace %s were changed after %d: %w", most, namespace, after, control.ErrPruned)
}

// Prune forgets changes batch by batch and returns how many. Each batch begins after a revision, and returns how many it has
// forgotten and up to where it has looked, 0 if that was all.
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
