package redisstore

import (
	"errors"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

// A script that finds the state of another limit changes nothing and returns it. The units consumed under that limit
// are computed here, by the same code as in other stores, and the script is called again, to replace the state if it is
// still the same. A script does this itself only for the most frequent change, of the rate of a bucket.

// carryTries is how often a script is called for one step. If nodes with different limits use a key in turn, it may
// find the state of another limit each time.
const carryTries = 8

// shift returns how far the key's clock under this limit is ahead of its clock under the limit of a state.
func (r *request) shift(state algorithm.State) int64 {
	if r.plan.Owns(state) {
		return 0
	}
	return state.Offset(r.name) - r.offset
}

// carry parses the state of another limit and prepares the request for replacing it. It returns false if the text is
// not such a state.
func (r *request) carry(now int64, stored string) bool {
	var array [8]int64
	state, ok := r.plan.DecodeState(stored, array[:0])
	if !ok || r.plan.Owns(state) {
		return false
	}
	shift := r.shift(state)
	at, units := state.Consumed(now - r.offset - shift)
	packed := make([]byte, 0, 2*numberSize+len(stored))
	packed = appendNumber(packed, at+shift)
	packed = appendNumber(packed, units)
	r.carried = string(append(packed, stored...))
	return true
}

// foreignKey returns the error of a value that is not a state.
func (s *Store) foreignKey(key string) error {
	return &ServerError{
		Server: s.client.ShardOf(key), Problem: topology.ProblemForeignKey, Fix: topology.FixForeignKey, OneKey: true,
		Err: errors.New("the value of " + key + " is not a counter: something else writes to this key"),
	}
}

// changingLimits returns the error of a key that had the state of another limit in every try.
func (s *Store) changingLimits(key string) error {
	return &ServerError{
		Server: s.client.ShardOf(key), Problem: "has a key, " + key + ", that is also used with another limit", OneKey: true,
		Fix: "use the same limits on all stores that share the prefix",
	}
}

// giveArgs returns how to give units back under the limit of a state, which is not that of the request: the algorithm of
// the script and its packed arguments. It returns false if the text is not such a state.
func (r *request) giveArgs(stored string, receipt headgate.Receipt) (name headgate.Algorithm, packed string, ok bool) {
	var array [8]int64
	state, ok := r.plan.DecodeState(stored, array[:0])
	if !ok || r.plan.Owns(state) {
		return 0, "", false
	}
	name, x, y := state.LuaGiveBack(r.name)
	args := make([]byte, 0, 5*numberSize)
	for _, n := range [...]int64{r.cost, r.plan.Capacity(), x, y, receipt.At - r.shift(state)} {
		args = appendNumber(args, n)
	}
	return name, string(args), true
}
