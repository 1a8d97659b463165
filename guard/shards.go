package guard

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// A Sharded store says on which of its shards a check is decided. Shards fail one by one. Their names are for people, and
// there are few; a shard that moves to another server may well have another name then.
type Sharded interface {
	Shard(c headgate.Check) string
}

// A Shard is the state of one.
type Shard struct {
	// Name is what the store calls it, empty if it has but one.
	Name string
	// Open tells that its circuit is: it is not asked.
	Open bool
	// Refuses is why it does not decide all that it is asked, though it works: its memory is full, or there is something else under
	// a key. Policies decide what it refuses. Nil if it has refused nothing for some seconds.
	Refuses error
	// Since is when Open, or else Refuses, last changed.
	Since time.Time
	// Err is its last failure, nil if it had none.
	Err error
}

// maxShards bounds the table. Names beyond it share one circuit.
const maxShards = 1024

// overflow is the name of the shard of those that have no room for their own.
const overflow = "(others)"

type shards struct {
	of     Sharded // nil if there is but one
	only   *shard
	byName atomic.Pointer[map[string]*shard]
	mu     sync.Mutex // guards changes of the map
}

// shardOf returns where a check is decided.
func (g *Guard) shardOf(c *headgate.Check) *shard {
	if g.shards.of == nil {
		return g.shards.only
	}
	name := g.shards.of.Shard(*c)
	s := (*g.shards.byName.Load())[name]
	if s == nil {
		s = g.addShard(name)
	}
	if !s.used.Load() {
		s.used.Store(true)
	}
	return s
}

// Fault returns why the shard of a check does not decide it now, so that a policy does: an *Error. It is nil if the shard is
// asked and answers.
func (g *Guard) Fault(c headgate.Check) error {
	s := g.shardOf(&c)
	if s.down.Load() {
		return &Error{Op: "take", Shard: s.name, Err: s.lastErr()}
	}
	if r := s.refusal.Load(); r != nil {
		return &Error{Op: "take", Shard: s.name, Err: *r.why.Load()}
	}
	if s.inRow.Load() > 0 {
		return &Error{Op: "take", Shard: s.name, Err: s.lastErr()}
	}
	return nil
}

// addShard makes room for a name. Those that nobody has asked for since the last time that it was short are dropped.
func (g *Guard) addShard(name string) *shard {
	t := &g.shards
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.byName.Load()
	if s := old[name]; s != nil {
		return s
	}
	byName := maps.Clone(old)
	if len(byName) >= maxShards {
		maps.DeleteFunc(byName, func(name string, s *shard) bool {
			return !s.used.Swap(false) && !s.down.Load() && name != overflow
		})
	}
	if len(byName) >= maxShards {
		name = overflow
	}
	s := byName[name]
	if s == nil {
		s = g.newShard(strings.Clone(name))
		byName[s.name] = s
	}
	t.byName.Store(&byName)
	return s
}

// dropShard forgets one.
func (g *Guard) dropShard(s *shard) {
	t := &g.shards
	t.mu.Lock()
	defer t.mu.Unlock()
	byName := maps.Clone(*t.byName.Load())
	delete(byName, s.name)
	t.byName.Store(&byName)
}

// Shards returns the states of the shards that were asked lately, by name.
func (g *Guard) Shards() []Shard {
	all := []*shard{g.shards.only}
	if g.shards.of != nil {
		all = slices.SortedFunc(maps.Values(*g.shards.byName.Load()), func(a, b *shard) int {
			return strings.Compare(a.name, b.name)
		})
	}
	states := make([]Shard, len(all))
	for i, s := range all {
		states[i] = Shard{Name: s.name, Open: s.down.Load(), Since: time.Unix(0, s.since.Load()), Err: s.lastErr()}
		if r := s.refusal.Load(); r != nil {
			states[i].Refuses = *r.why.Load()
			if !states[i].Open {
				states[i].Since = r.since
			}
		}
	}
	return states
}
