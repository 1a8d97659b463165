package limittest

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// faultyAlgorithm is an algorithm whose functions can be replaced by wrong ones.
type faultyAlgorithm struct {
	used func(l headgate.Limit, s algorithm.Numbers, now int64) int64
	take func(l headgate.Limit, s algorithm.Numbers, now, n int64) algorithm.Numbers
	give func(l headgate.Limit, s algorithm.Numbers, now, n, taken int64) algorithm.Numbers
}

func (f faultyAlgorithm) Used(l headgate.Limit, s algorithm.Numbers, now int64) int64 {
	return f.used(l, s, now)
}

func (f faultyAlgorithm) Take(l headgate.Limit, s algorithm.Numbers, now, n int64) algorithm.Numbers {
	return f.take(l, s, now, n)
}

func (f faultyAlgorithm) Give(l headgate.Limit, s algorithm.Numbers, now, n, taken int64) algorithm.Numbers {
	return f.give(l, s, now, n, taken)
}

// correct counts units for a period after the latest take.
func correct() faultyAlgorithm {
	used := func(l headgate.Limit, s algorithm.Numbers, now int64) int64 {
		if now >= s[0]+l.Period.Microseconds() {
			return 0
		}
		return s[1]
	}
	return faultyAlgorithm{
		used: used,
		take: func(l headgate.Limit, s algorithm.Numbers, now, n int64) algorithm.Numbers {
			before := used(l, s, now)
			if before == 0 {
				s[2] = now
			}
			return algorithm.Numbers{now, before + n, s[2]}
		},
		give: func(_ headgate.Limit, s algorithm.Numbers, _, n, taken int64) algorithm.Numbers {
			if taken >= s[2] {
				s[1] = max(0, s[1]-n)
			}
			return s
		},
	}
}

func TestRunAlgorithmAcceptsACorrectOne(t *testing.T) { RunAlgorithm(t, correct()) }

func TestRunAlgorithmFindsFaults(t *testing.T) {
	for fault, test := range map[string]struct {
		change func(f *faultyAlgorithm)
		want   string
	}{
		"a new key has consumed": {func(f *faultyAlgorithm) {
			f.used = func(headgate.Limit, algorithm.Numbers, int64) int64 { return 1 }
		}, "zero Numbers"},
		"a take counts once more": {func(f *faultyAlgorithm) {
			take := f.take
			f.take = func(l headgate.Limit, s algorithm.Numbers, now, n int64) algorithm.Numbers {
				return take(l, s, now, n+1)
			}
		}, "Take of"},
		"a take counts nothing": {func(f *faultyAlgorithm) {
			f.take = func(_ headgate.Limit, s algorithm.Numbers, _, _ int64) algorithm.Numbers { return s }
		}, "Take of"},
		"a refund goes below zero": {func(f *faultyAlgorithm) {
			f.give = func(_ headgate.Limit, s algorithm.Numbers, _, n, _ int64) algorithm.Numbers {
				s[1] -= 2 * n
				return s
			}
		}, "Give of"},
		"a refund adds": {func(f *faultyAlgorithm) {
			f.give = func(_ headgate.Limit, s algorithm.Numbers, now, n, _ int64) algorithm.Numbers {
				return algorithm.Numbers{now, s[1] + n}
			}
		}, "Give of"},
		"a refund does nothing": {func(f *faultyAlgorithm) {
			f.give = func(_ headgate.Limit, s algorithm.Numbers, _, _, _ int64) algorithm.Numbers { return s }
		}, "taken at the same time"},
		"an expired refund frees other units": {func(f *faultyAlgorithm) {
			f.give = func(_ headgate.Limit, s algorithm.Numbers, _, n, _ int64) algorithm.Numbers {
				s[1] = max(0, s[1]-n)
				return s
			}
		}, "expired units"},
		"units grow with time": {func(f *faultyAlgorithm) {
			f.used = func(_ headgate.Limit, s algorithm.Numbers, now int64) int64 {
				if s == (algorithm.Numbers{}) {
					return 0
				}
				return s[1] + (now-s[0])/1000
			}
		}, "while nothing was taken"},
		"units never fade": {func(f *faultyAlgorithm) {
			f.used = func(_ headgate.Limit, s algorithm.Numbers, _ int64) int64 { return s[1] }
			f.take = func(_ headgate.Limit, s algorithm.Numbers, now, n int64) algorithm.Numbers {
				return algorithm.Numbers{now, s[1] + n}
			}
		}, "want 0"},
	} {
		f := correct()
		test.change(&f)
		l := headgate.Limit{Algorithm: headgate.FirstCustom, Count: 10, Period: headgate.PerMinute(1).Period}
		var plan algorithm.Plan
		if err := plan.SetCustom(l, f); err != nil {
			t.Fatal(err)
		}
		h := customHistory{custom: f, limit: l, rng: rand.New(rand.NewPCG(1, 1))}
		var err error
		for i := 0; i < 50 && err == nil; i++ {
			err = h.run(&plan)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error about %q", fault, err, test.want)
		}
	}
}

func TestScriptsNameCustomAlgorithms(t *testing.T) {
	cases, err := parseScript("x.txt", "case x\nlimit 10/m burst 20 custom-3\nat 0s take alice 1 -> allow")
	if err != nil {
		t.Fatal(err)
	}
	want := headgate.Limit{Algorithm: headgate.FirstCustom + 3, Count: 10, Period: headgate.PerMinute(1).Period, Burst: 20}
	if got := cases[0].steps[0].checks[0].Limit; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []string{"10/m custom-", "10/m custom-128", "10/m custom-x", "10/m gcra custom-1"} {
		if _, err := parseScript("x.txt", "case x\nlimit "+bad+"\nat 0s take alice 1 -> allow"); err == nil {
			t.Errorf("%s: got no error", bad)
		}
	}
}
