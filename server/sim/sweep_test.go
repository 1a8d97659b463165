package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/sim/scenario"
)

// To replay a failing seed: go test ./server/sim -run TestSoakSweep -sim.seed=SEED
// To replay a scenario file: go test ./server/sim -run TestSoakSweep -sim.file=FILE
var (
	firstSeed   = newSeedFlag("sim.seed", "seed to replay alone, or the first seed if sim.last is set")
	lastSeed    = newSeedFlag("sim.last", "last seed")
	oneFile     = flag.String("sim.file", "", "scenario file to check alone")
	maxFailures = flag.Int("sim.failures", 20, "number of failing seeds after which the sweep ends")
)

// A seedFlag is a seed, 1 or more. It is 0 if it is not set.
type seedFlag int

func newSeedFlag(name, usage string) *seedFlag {
	f := new(seedFlag)
	flag.Var(f, name, usage)
	return f
}

// String implements flag.Value.
func (f *seedFlag) String() string { return strconv.Itoa(int(*f)) }

// Set implements flag.Value.
func (f *seedFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err == nil && n < 1 {
		err = fmt.Errorf("%d: want a seed of at least 1", n)
	}
	*f = seedFlag(n)
	return err
}

func TestSeedsBelowOneAreRefused(t *testing.T) {
	for text, want := range map[string]bool{"7": true, "0": false, "-7": false, "x": false} {
		var f seedFlag
		if err := f.Set(text); (err == nil) != want {
			t.Errorf("seed %s: error %v, want accepted = %v", text, err, want)
		}
	}
}

// sweep runs the scenario of a seed and returns the first violation of an invariant, or "".
func sweep(t *testing.T, seed int, planted bugs) (violation string) {
	t.Helper()
	return violationOf(t, randomScenario(t, seed), planted)
}

// The bounds of a seed. Most have less than 100,000 events, which take less than a second.
const (
	maxEvents   = 100_000_000
	maxRealTime = 5 * time.Minute
)

// violationOf runs a scenario and returns the first violation of an invariant, or "". A panic is a violation too, and so
// is a scenario that does not end.
func violationOf(t *testing.T, s *scenario.Scenario, planted bugs) string {
	t.Helper()
	return boundedViolation(t, s, planted, maxEvents, maxRealTime)
}

// boundedViolation runs a scenario in a goroutine of its own, which it leaves if it takes too long.
func boundedViolation(
	t *testing.T, s *scenario.Scenario, planted bugs, events int64, realTime time.Duration,
) string {
	t.Helper()
	named := func(format string, args ...any) string {
		return fmt.Sprintf("seed %d: ", s.Seed) + fmt.Sprintf(format, args...) + "\n" + replayCommand(s.Seed)
	}
	done := make(chan string, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- named("panic: %v\n%s", r, debug.Stack())
			}
		}()
		violation := runChecked(t, s, planted, events)
		if strings.Contains(violation, tooMany) {
			violation = named("%s", violation)
		}
		done <- violation
	}()
	select {
	case violation := <-done:
		return violation
	case <-time.After(realTime):
		return named(tooSlow+" %v", realTime)
	}
}

// tooSlow and tooMany are parts of the violations of scenarios that do not end.
const (
	tooSlow = "it has not ended after a real time of"
	tooMany = "it has not ended after"
)

// replayCommand returns the command that runs the scenario of a seed again.
func replayCommand(seed int) string {
	return fmt.Sprintf("replay it: go test ./server/sim -run TestSoakSweep -sim.seed=%d", seed)
}

// runChecked runs a scenario and returns the first violation of an invariant, or "".
func runChecked(t *testing.T, s *scenario.Scenario, planted bugs, events int64) string {
	v := s.Variants()[0]
	w, err := newPlantedWorld(s, v, 0, planted)
	if err != nil {
		return fmt.Sprintf("start: %v", err)
	}
	panicked := true
	defer func() {
		if panicked {
			return // its nodes may be in any state
		}
		if err := w.close(); err != nil {
			t.Errorf("seed %d: close: %v", s.Seed, err)
		}
	}()
	i := newInvariants(w)
	w.startTraffic(nil)
	w.startFaults()
	if planted.start != nil {
		planted.start(w)
	}
	if mode := v.Mode.String(); mode == "async" || mode == "gossip" {
		w.loop.After(s.Traffic[0].Until+convergesAfter(s), i.readLevels)
		w.loop.After(s.Traffic[0].Until+convergesAfter(s)+ledgerLookup, i.readLevels)
	}
	// After the faults, a client that has not sent for a second, and has repaid its debt, is admitted. The decision may
	// wait for a lookup.
	w.loop.After(s.Duration-600*time.Millisecond, func() {
		for client := range uint64(s.Traffic[0].Clients) {
			w.arrive(i.request(client))
		}
	})
	for w.loop.Step(s.Duration) && i.violation == "" && w.err == nil {
		if w.loop.Events() > events {
			i.violated(tooMany+" %d events", events)
		}
	}
	panicked = false
	if w.err != nil {
		return w.err.Error()
	}
	i.atEnd()
	return i.violation
}

// Neither a panic nor an endless loop of a seed ends the sweep without naming the seed.
func TestSeedThatPanicsOrDoesNotEndIsNamed(t *testing.T) {
	t.Parallel()
	blocked := make(chan struct{})
	t.Cleanup(func() { close(blocked) })
	for want, start := range map[string]func(*world){
		"panic: planted": func(w *world) { w.loop.After(time.Second, func() { panic("planted") }) },
		"panic: on a node": func(w *world) {
			w.loop.After(time.Second, func() { w.nodes[0].host.Run(func() { panic("on a node") }) })
		},
		tooMany + " 100000 events": func(w *world) {
			var again func()
			again = func() { w.loop.After(0, again) }
			again()
		},
		tooSlow: func(w *world) { w.loop.After(time.Second, func() { <-blocked }) },
	} {
		bound := time.Minute
		if want == tooSlow {
			bound = time.Second
		}
		got := boundedViolation(t, randomScenario(t, 7), bugs{start: start}, 100_000, bound)
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if !strings.Contains(got, "-sim.seed=7") {
			t.Errorf("got %q, want the command that replays seed 7", got)
		}
	}
}

// ledgerLookup is longer than a node waits for what its peers consumed of a key.
const ledgerLookup = 300 * time.Millisecond

func TestSoakSweepHoldsInvariants(t *testing.T) {
	racing.Skip(t, "one goroutine at a time runs, so there are no races")
	t.Parallel()
	if *oneFile != "" {
		s, err := scenario.Load(*oneFile)
		if err != nil {
			t.Fatal(err)
		}
		if violation := violationOf(t, s, bugs{}); violation != "" {
			t.Error(violation)
		}
		return
	}
	first, last := 1, 40
	switch {
	case *firstSeed > 0:
		first, last = int(*firstSeed), int(max(*firstSeed, *lastSeed))
	case *lastSeed > 0:
		last = int(*lastSeed)
	case os.Getenv("HEADGATE_SOAK") == "1":
		last = 10_000
	}
	failures := 0
	for seed := first; seed <= last && failures < *maxFailures; seed++ {
		if violation := sweep(t, seed, bugs{}); violation != "" {
			failures++
			t.Errorf("seed %d: %s\n%s", seed, violation, replayCommand(seed))
			if !strings.Contains(violation, tooSlow) { // each smaller scenario may take as long
				t.Error(describe(t, shrink(t, randomScenario(t, seed), bugs{})))
			}
		}
	}
}

// describe stores a scenario in a file, and returns its text and the command that replays it.
func describe(t *testing.T, s *scenario.Scenario) string {
	t.Helper()
	file := filepath.Join(os.TempDir(), fmt.Sprintf("headgate-sim-%d.yaml", s.Seed))
	text := scenario.Format(s)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("as small as possible: go test ./server/sim -run TestSoakSweep -sim.file=%s\n%s", file, text)
}

// Two requests for the same two keys once woke each other forever, each with the turn that the other released.
func TestRequestsDoNotWakeEachOtherForever(t *testing.T) {
	t.Parallel()
	s, err := scenario.Load("testdata/wake.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if violation := violationOf(t, s, bugs{}); violation != "" {
		t.Error(violation)
	}
}

func TestSweepFindsPlantedBugs(t *testing.T) {
	racing.Skip(t, "one goroutine at a time runs, so there are no races")
	t.Parallel()
	for _, c := range []struct {
		name, mode string
		planted    bugs
		violation  string // a part of it
	}{
		{"a lost update in Redis", "exact", bugs{loseUpdates: true}, "units above its limit"},
		{"a lost update in a node", "local", bugs{loseUpdates: true}, "decides true"},
		{"a lease used after its expiry", "lease", bugs{slowClocks: true}, "used units of a lease that has expired"},
		{"a new node that does not learn", "async", bugs{deafNewcomer: true}, "units above its limit"},
		{"a denial that takes units in Redis", "exact", bugs{partialTakes: true}, "is wrong for"},
		{"a denial that takes units on a node", "local", bugs{partialTakes: true}, "decides"},
		{"a denial that takes shared units", "async", bugs{partialTakes: true}, "that it did not get"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := 1; seed <= 1000; seed++ {
				if modeOf(seed) != c.mode {
					continue
				}
				violation := sweep(t, seed, c.planted)
				if !strings.Contains(violation, c.violation) {
					continue
				}
				small := shrink(t, randomScenario(t, seed), c.planted)
				again, err := scenario.Parse("again.yaml", scenario.Format(small))
				if err != nil {
					t.Fatal(err)
				}
				if got, want := violationOf(t, again, c.planted), violationOf(t, small, c.planted); got != want {
					t.Errorf("the printed scenario: %s, want %s", got, want)
				}
				if violationOf(t, small, c.planted) == "" || violationOf(t, small, bugs{}) != "" {
					t.Errorf("the smaller scenario does not show the bug, or another one: %s", describe(t, small))
				}
				t.Logf("found by seed %d: %s\n%s", seed, violation, scenario.Format(small))
				return
			}
			t.Error("not found within 1000 seeds")
		})
	}
}
