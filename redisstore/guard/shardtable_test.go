package guard

import (
	"errors"
	"testing"
)

// Fault says why a shard does not decide, and of no other shard.
func TestFaultIsThatOfTheShard(t *testing.T) {
	f := newFake(t, nil)
	g := newGuard(t, shardedFake{f}, Options{})
	take(t, g, check("a/1", "10/s"))
	if err := g.Fault(check("a/1", "10/s")); err != nil {
		t.Errorf("got %v of a shard that answers, want nil", err)
	}
	goDown(t, g, f, "a")
	err := g.Fault(check("a/1", "10/s"))
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, errRefused) {
		t.Errorf("got %v, want that of the shard that is down", err)
	}
	take(t, g, check("b/1", "10/s"))
	if err := g.Fault(check("b/1", "10/s")); err != nil {
		t.Errorf("got %v of another shard, want nil", err)
	}
}
