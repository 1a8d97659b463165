package limittest

import (
	"slices"

	"github.com/headgate/headgate"
)

// noEffectTests check that peeks and denials change nothing, and that keys are independent.
func noEffectTests() []suiteTest {
	return slices.Concat(
		forEach("no effect", "peeks and denials change nothing", allLimits, (*trial).noEffectOnHistory),
		forEach("no effect", "never passes", allLimits, (*trial).neverPasses),
		forEach("no effect", "keys are independent", allLimits, (*trial).keysAreIndependent))
}

// noEffectOnHistory runs the same history on two limiters. One of them also gets calls that must have no
// effect.
func (tr *trial) noEffectOnHistory(l headgate.Limit) {
	other := tr.twin()
	for range tr.Steps {
		tr.Advance(randomPause(tr.rng, l, tr.elapsed()))
		tr.callsWithoutEffect(l)
		n := randomCost(tr.rng, l)
		got, want := tr.take("alice", l, n), other.take("alice", l, n)
		if !sameDecision(got, want) {
			tr.Fatalf("%s: cost %d: got %+v after peeks and denials, %+v without", l, n, got, want)
		}
	}
}

// callsWithoutEffect makes calls that cannot be admitted.
func (tr *trial) callsWithoutEffect(l headgate.Limit) {
	first := tr.peek("alice", l)
	if second := tr.peek("alice", l); second != first {
		tr.Fatalf("%s: two peeks: %+v, then %+v", l, first, second)
	}
	if first.Remaining < first.Limit {
		for range tr.rng.IntN(3) {
			tr.take("alice", l, max(first.Remaining, 0)+1)
		}
	}
	if tr.rng.IntN(4) == 0 {
		tr.take("alice", l, first.Limit+1)
	}
}

// neverPasses requests more than the limit's capacity.
func (tr *trial) neverPasses(l headgate.Limit) {
	for _, n := range []int64{l.Capacity() + 1, headgate.MaxCount + 1, 1<<63 - 1} {
		if d := tr.take("alice", l, n); d.Allowed || d.RetryAfter != headgate.Never || d.Remaining != l.Capacity() {
			tr.Errorf("%s: cost %d: got %+v, want Never", l, n, d)
		}
	}
	tr.requireUnused("alice", l, "after costs that never pass")
}

func (tr *trial) keysAreIndependent(l headgate.Limit) {
	tr.take("alice", l, l.Capacity())
	for _, key := range []string{"alice ", "Alice", "alic", "alice\x00", "alicf", " alice", "a"} {
		tr.requireUnused(key, l, "another key")
	}
	tr.take("a", l, l.Capacity())
	tr.reset("a")
	if d := tr.peek("alice", l); d.Remaining != 0 {
		tr.Errorf("%s: %d remaining after another key was reset, want 0", l, d.Remaining)
	}
}
