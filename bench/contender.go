package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"
)

// A contender decides whether one more request of a key may pass.
type contender interface {
	Allow(key string) bool
}

// A counted contender can tell how large its table is and whether it forgot a key that it was to remember.
type counted interface {
	table() tableSize
}

// A stepping contender counts the steps in which it rehashes and sweeps, and those of them that took over 100 µs.
type stepping interface {
	steps() (all, long int64)
}

// A tableSize is what a contender says of its own table.
type tableSize struct {
	Keys  int64
	Bytes int64
	// Lost is how many keys were evicted or refused. A run in which it is not zero measures something else.
	Lost int64
}

// A quota is a limit in the words that all contenders share: count units a period, all of which may come at once.
type quota struct {
	count  int
	period time.Duration
}

// interval is the time in which one unit comes back.
func (q quota) interval() time.Duration { return q.period / time.Duration(q.count) }

// perSecond is the rate as a float, for limiters that want one.
func (q quota) perSecond() float64 { return float64(q.count) / q.period.Seconds() }

// The quotas of the runs. Under steady, one unit takes 432 s to come back and no window ends: keys stay live, nothing
// is due for removal, and what is timed is the decision on a live key. Under open, nothing that two cores can ask for
// is denied.
var quotas = map[string]quota{
	"steady": {count: 100, period: 12 * time.Hour},
	"open":   {count: 50_000, period: time.Millisecond},
}

// A role says what a contender stands for in the tables.
type role string

const (
	ours  role = "ours"
	peer  role = "peer"
	floor role = "floor"
	loop  role = "loop" // the harness alone
)

// An entry is a contender that can be made.
type entry struct {
	// name is short and unique, for flags; title is for tables.
	name, title string
	// module is whose version is printed; empty for what is written here.
	module string
	role   role
	// single is set if there is one counter, whatever the key.
	single bool
	// keepsKeys is set if it holds on to the strings it is given. The others are given strings in a buffer that is
	// used again, so that the harness leaves no garbage in their process.
	keepsKeys bool
	// waits is set if it makes callers wait and denies nobody.
	waits bool
	// variant is set if it is a second way to use a contender, measured for speed and nothing else.
	variant bool
	// make returns a contender for about so many keys.
	make func(q quota, keys int) (contender, error)
}

// entries lists everything that can run in one process.
func entries() []entry {
	list := []entry{
		{name: "loop", title: "the loop alone", role: loop, make: newLoop},
		{name: "floor", title: "floor", role: floor, make: newFloorTable},
		{name: "floor-large", title: "floor, large pages", role: floor, variant: true, make: newFloorLargePages},
		{name: "floor-single", title: "floor, one counter", role: floor, single: true, make: newFloorSingle},
	}
	list = append(list, headgateEntries()...)
	list = append(list, xtimeEntries()...)
	list = append(list, jujuEntries()...)
	return append(list, goLimiterEntry(), throttledEntry(), ululeEntry(), httprateEntry(), tollboothEntry(), uberEntry())
}

func entryNamed(name string) (entry, error) {
	for _, e := range slices.Concat(entries(), redisEntries(), halfEntries()) {
		if e.name == name {
			return e, nil
		}
	}
	return entry{}, fmt.Errorf("no contender is named %q", name)
}

// versionsOf returns the version of every module that the entries name, as linked into this program.
func versionsOf(list []entry) []moduleVersion {
	linked := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			linked[d.Path] = d.Version
		}
	}
	var versions []moduleVersion
	seen := map[string]bool{"": true}
	for _, e := range list {
		if seen[e.module] {
			continue
		}
		seen[e.module] = true
		v := linked[e.module]
		if v == "" {
			v = "unknown"
		}
		versions = append(versions, moduleVersion{Module: e.module, Version: v})
	}
	return versions
}

// linked returns what tells the versions of entries.
func linked(list []entry) func(context.Context) []moduleVersion {
	return func(context.Context) []moduleVersion { return versionsOf(list) }
}

// harness reads the key and decides nothing: what is left of a contender's time when the contender is taken away.
type harness struct{}

func newLoop(quota, int) (contender, error) { return harness{}, nil }

func (harness) Allow(key string) bool { return key[len(key)-1] != 0 }
