package redisstore

import (
	"errors"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// When a script finds a state of another limit, it does nothing and returns it. What was consumed under that limit is worked
// out here, by the same code for all stores, and the script is called once more, to replace the state if it is still the same.
// Only for the most frequent change, of the rate of a bucket, does the script know itself what to do.

// carryTries is how often a state of another limit is looked at. Where nodes with different limits for a key take turns, it
// may be another one each time.
const carryTries = 8

// shift returns by how much the key's clock under its limit is ahead of the one that a state was written by.
func (a *ask) shift(state algorithm.State) int64 {
	if a.plan.Owns(state) {
		return 0
	}
	return state.Offset(a.name) - a.offset
}

// carry reads a state of another limit as it was found, and prepares the ask for replacing it. It is false if that is none.
func (a *ask) carry(now int64, found string) bool {
	var room [8]int64
	state, ok := a.plan.Found(found, room[:0])
	if !ok || a.plan.Owns(state) {
		return false
	}
	shift := a.shift(state)
	at, units := state.Consumed(now - a.offset - shift)
	packed := make([]byte, 0, 2*numberSize+len(found))
	packed = appendNumber(packed, at+shift)
	packed = appendNumber(packed, units)
	a.carried = string(append(packed, found...))
	return true
}

// foreign returns the error for a value that is no state, as scripts report it.
func (s *Store) foreign(key string) error {
	return &ServerError{
		Server: s.conn.shardOf(s.conn.slotOf(key)), What: "has values of somebody else under our keys", Cure: cureKey, ofKey: true,
		Err: errors.New("the value of " + key + " is not a counter: something else writes to this key"),
	}
}

// changing returns the error for a key that had a state of another limit each time.
func (s *Store) changing(key string) error {
	return &ServerError{
		Server: s.conn.shardOf(s.conn.slotOf(key)), What: "has a key, " + key + ", that others take from by another limit", ofKey: true,
		Cure: "give all that share the prefix the same limits",
	}
}

// giveTo returns how to give back by the limit of a state that was found, which is another than that of the ask: the
// algorithm whose script does it, and the numbers that this is called with. It is false if that is no state.
func (a *ask) giveTo(found string, r headgate.Receipt) (name headgate.Algorithm, numbers string, ok bool) {
	var room [8]int64
	state, ok := a.plan.Found(found, room[:0])
	if !ok || a.plan.Owns(state) {
		return 0, "", false
	}
	name, x, y := state.LuaGiveBack(a.name)
	packed := make([]byte, 0, 5*numberSize)
	for _, n := range [...]int64{a.n, a.plan.Capacity(), x, y, r.At - a.shift(state)} {
		packed = appendNumber(packed, n)
	}
	return name, string(packed), true
}
