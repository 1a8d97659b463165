package limittest

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// Options set the amount of work. The zero Options are suitable for a store in memory.
type Options struct {
	// Steps is the number of steps in a random history. Default 500. Fewer may be better for a store behind a network.
	Steps int
	// Goroutines is the number of concurrent callers. Default 1000.
	Goroutines int
	// Seed is the seed of all random choices. Default 1.
	Seed uint64
}

func (o Options) withDefaults() Options {
	if o.Steps == 0 {
		o.Steps = 500
	}
	if o.Goroutines == 0 {
		o.Goroutines = 1000
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	return o
}

// A Maker returns a new limiter that reads the time from now. It may use t to clean up.
type Maker = func(t testing.TB, now func() time.Time) headgate.Limiter

// Run checks that a limiter fulfills the contract of headgate.Limiter. It runs a few hundred subtests and calls
// newLimiter for each of them, for some twice.
func Run(t *testing.T, newLimiter Maker) { RunOptions(t, newLimiter, Options{}) }

// RunOptions is like Run, with options.
func RunOptions(t *testing.T, newLimiter Maker, o Options) {
	all, err := allTests()
	if err != nil {
		t.Fatal(err)
	}
	o = o.withDefaults()
	for _, group := range groups(all) {
		t.Run(group, func(t *testing.T) {
			t.Logf("seed %d", o.Seed)
			for _, c := range all {
				if c.group == group {
					t.Run(c.name, func(t *testing.T) { c.run(newTrial(t, c, newLimiter, o)) })
				}
			}
		})
	}
}

// A suiteTest tests one property of a limiter.
type suiteTest struct {
	group string
	name  string
	run   func(*trial)
}

// allTests returns the whole suite.
func allTests() ([]suiteTest, error) {
	all, err := caseTests()
	if err != nil {
		return nil, err
	}
	return slices.Concat(all, boundTests(), concurrentTests(), predictionTests(), noEffectTests(), refundTests(),
		renewTests(), changeTests(), settleTests(), takeAllTests(), inputTests(), offeredLoadTests()), nil
}

// groups returns the groups of tests in the order of their first occurrence.
func groups(all []suiteTest) []string {
	var names []string
	for _, c := range all {
		if !slices.Contains(names, c.group) {
			names = append(names, c.group)
		}
	}
	return names
}

// A trial is a limiter under test, with its clock.
type trial struct {
	testing.TB
	*Clock
	Options
	limiter headgate.Limiter
	maker   Maker
	rng     *rand.Rand
}

func newTrial(t testing.TB, c suiteTest, newLimiter Maker, o Options) *trial {
	h := fnv.New64a()
	h.Write([]byte(c.group + "/" + c.name))
	tr := &trial{TB: t, Clock: NewClock(), Options: o, maker: newLimiter}
	tr.rng = rand.New(rand.NewPCG(o.Seed, h.Sum64()))
	tr.limiter = oneOwner{newLimiter(t, tr.Now)}
	return tr
}

// twin returns a trial of a second limiter with the same clock and the same random source.
func (tr *trial) twin() *trial {
	other := *tr
	other.limiter = oneOwner{tr.maker(tr.TB, tr.Now)}
	return &other
}
