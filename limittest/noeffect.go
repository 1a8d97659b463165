package limittest

import "github.com/headgate/headgate"

// noEffectChecks check that peeks and denials change nothing, and that keys are independent.
func noEffectChecks() []check {
	return append(append(
		forEach("no effect", "looks and denials change nothing", allLimits,
			func(tr *trial, l headgate.Limit) { tr.noEffectOnHistory(l) }),
		forEach("no effect", "never passes", allLimits, func(tr *trial, l headgate.Limit) { tr.neverPasses(l) })...),
		forEach("no effect", "keys are independent", allLimits,
			func(tr *trial, l headgate.Limit) { tr.keysAreIndependent(l) })...)
}

// noEffectOnHistory runs one history on two limiters, one of which also gets calls without effect.
func (tr *trial) noEffectOnHistory(l headgate.Limit) {
	other := tr.twin()
	for range tr.Steps {
		tr.Advance(pause(tr.rng, l, tr.at()))
		tr.callsWithoutEffect(l)
		n := cost(tr.rng, l)
		got, want := tr.take("alice", l, n), other.take("alice", l, n)
		if !same(got, want) {
			tr.Fatalf("%s: cost %d: got %+v after looks and denials, %+v without", l, n, got, want)
		}
	}
}

// callsWithoutEffect makes calls that cannot be admitted.
func (tr *trial) callsWithoutEffect(l headgate.Limit) {
	d := tr.peek("alice", l)
	if again := tr.peek("alice", l); again != d {
		tr.Fatalf("%s: two looks: %+v, then %+v", l, d, again)
	}
	if d.Remaining < d.Limit {
		for range tr.rng.IntN(3) {
			tr.take("alice", l, max(d.Remaining, 0)+1)
		}
	}
	if tr.rng.IntN(4) == 0 {
		tr.take("alice", l, d.Limit+1)
	}
}

// neverPasses requests more than the limit's capacity.
func (tr *trial) neverPasses(l headgate.Limit) {
	for _, n := range []int64{l.Capacity() + 1, headgate.MaxCount + 1, 1<<63 - 1} {
		if d := tr.take("alice", l, n); d.Allowed || d.RetryAfter != headgate.Never || d.Remaining != l.Capacity() {
			tr.Errorf("%s: cost %d: got %+v, want Never", l, n, d)
		}
	}
	tr.requireNew("alice", l, "after costs that never pass")
}

func (tr *trial) keysAreIndependent(l headgate.Limit) {
	tr.take("alice", l, l.Capacity())
	for _, key := range []string{"alice ", "Alice", "alic", "alice\x00", "alicf", " alice", "a"} {
		tr.requireNew(key, l, "another key")
	}
	tr.take("a", l, l.Capacity())
	tr.reset("a")
	if d := tr.peek("alice", l); d.Remaining != 0 {
		tr.Errorf("%s: %d remaining after another key was reset, want 0", l, d.Remaining)
	}
}
