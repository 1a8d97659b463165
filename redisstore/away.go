package redisstore

import (
	"errors"
	"time"
)

// An Absence is a shard that cannot decide, as far as is known without asking it.
type Absence struct {
	// Shard is its name, as Store.Shard says it.
	Shard string
	// Err says why, and what to do about it.
	Err error
	// Since is when its connection was lost, zero if it is not known.
	Since time.Time
}

// Away returns the shards that cannot decide now because there is no connection to their primary, or because it is not known
// who that is, or because it cannot be used. It asks nobody, so that it also knows when nobody asks for a decision.
func (s *Store) Away() []Absence {
	c := s.conn
	m := c.topology.Load()
	if m == nil {
		_, err := (&try{c: c}).first()
		return []Absence{{Shard: c.shardOf(0), Err: err}}
	}
	var list []Absence
	for _, shard := range m.shards {
		st := shard.primary.status.Load()
		if st.up || st.tries == 0 && errors.Is(st.err, errNotYet) { // or it is just being connected to
			continue
		}
		list = append(list, Absence{Shard: shard.name, Err: away(shard.primary.addr, st.err), Since: st.since})
	}
	if why := c.unfit.Load(); why != nil && len(list) == 0 {
		list = append(list, Absence{Shard: c.shardOf(0), Err: *why})
	}
	return list
}
