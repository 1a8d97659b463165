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

// A Shard is the state of a shard.
type Shard struct {
	// Name is the store's name for the shard, or empty if the store is not Sharded.
	Name string
	// Open reports whether the shard's circuit is open. Then the shard is not called.
	Open bool
	// Refuses says why the shard refuses to decide some checks although it works: its memory is full, or a key has a value
	// of another program. Policies decide these checks. It is nil if the shard has refused nothing for some seconds.
	Refuses error
	// Since is when Open last changed. If Open is false and Refuses is set, it is when the shard began to refuse checks.
	Since time.Time
	// Err is the last failure of the shard, or nil.
	Err error
}

// maxShards is the maximum number of shards. Further names share the circuit of overflowShard.
const (
	maxShards     = 1024
	overflowShard = "(others)"
)

// A shardTable holds the shards of a store.
type shardTable struct {
	store  Sharded // nil if the store is not Sharded
	only   *shard  // the only shard of a store that is not Sharded
	byName atomic.Pointer[map[string]*shard]
	mu     sync.Mutex // held to change byName
}

func (g *Guard) isSharded() bool { return g.shards.store != nil }

// shardOf returns the shard that decides a check.
func (g *Guard) shardOf(c *headgate.Check) *shard {
	if !g.isSharded() {
		return g.shards.only
	}
	name := g.shards.store.Shard(*c)
	s := (*g.shards.byName.Load())[name]
	if s == nil {
		s = g.addShard(name)
	}
	if !s.used.Load() {
		s.used.Store(true)
	}
	return s
}

// Fault returns an *Error that says why a policy decides a check now instead of its shard. It returns nil if the shard
// decides.
func (g *Guard) Fault(c headgate.Check) error {
	s := g.shardOf(&c)
	if s.circuit.open.Load() {
		return &Error{Op: "take", Shard: s.name, Err: s.lastErr()}
	}
	if r := s.refusal.Load(); r != nil {
		return &Error{Op: "take", Shard: s.name, Err: *r.err.Load()}
	}
	if s.circuit.failuresInRow.Load() > 0 {
		return &Error{Op: "take", Shard: s.name, Err: s.lastErr()}
	}
	return nil
}

// addShard adds a shard. If the table is full, shards that were not used since it was last full are removed.
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
			return !s.used.Swap(false) && !s.circuit.open.Load() && name != overflowShard
		})
	}
	if len(byName) >= maxShards {
		name = overflowShard
	}
	s := byName[name]
	if s == nil {
		s = g.newShard(strings.Clone(name))
		byName[s.name] = s
	}
	t.byName.Store(&byName)
	return s
}

// forgetShard removes a shard.
func (g *Guard) forgetShard(s *shard) {
	t := &g.shards
	t.mu.Lock()
	defer t.mu.Unlock()
	byName := maps.Clone(*t.byName.Load())
	delete(byName, s.name)
	t.byName.Store(&byName)
}

// Shards returns the states of the shards that were used lately, by name.
func (g *Guard) Shards() []Shard {
	all := []*shard{g.shards.only}
	if g.isSharded() {
		all = slices.SortedFunc(maps.Values(*g.shards.byName.Load()), func(a, b *shard) int {
			return strings.Compare(a.name, b.name)
		})
	}
	states := make([]Shard, len(all))
	for i, s := range all {
		since := time.Unix(0, s.circuit.changedAt.Load())
		states[i] = Shard{Name: s.name, Open: s.circuit.open.Load(), Since: since, Err: s.lastErr()}
		if r := s.refusal.Load(); r != nil {
			states[i].Refuses = *r.err.Load()
			if !states[i].Open {
				states[i].Since = r.since
			}
		}
	}
	return states
}
