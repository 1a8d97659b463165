package redisstore

import (
	"errors"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

// A key may have the state of another limit, for example after a rule was changed. A script that finds such a state
// changes nothing and returns the state. The code below computes the units that were consumed under the other limit.
// Then the script is called again, and replaces the state if it is still the same. Only for the most frequent change,
// of the rate of a bucket, scripts convert the state themselves.

// maxStepCalls is the maximum number of calls of a script for one step. If nodes with different limits use a key in
// turn, every call may find the state of another limit.
const maxStepCalls = 8

// shift returns, in µs, how far the key's clock under this limit is ahead of its clock under the limit of a state.
func (r *request) shift(state algorithm.State) int64 {
	if r.plan.Owns(state) {
		return 0
	}
	return state.Offset(r.checkKey) - r.offset
}

// convertFrom prepares the request to replace stored, the packed state of another limit. It returns false if stored is
// not such a state.
func (r *request) convertFrom(now int64, stored string) bool {
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
	r.conversion = string(append(packed, stored...))
	return true
}

// foreignKey returns the error for a key whose value is not a state.
func (s *Store) foreignKey(key string) error {
	return &ServerError{
		Server: s.client.ShardOf(key), Problem: topology.ProblemForeignKey, Fix: topology.FixForeignKey, OneKey: true,
		Err: errors.New("the value of " + key + " is not a counter: something else writes to this key"),
	}
}

// changingLimits returns the error for a key that had the state of another limit in every try.
func (s *Store) changingLimits(key string) error {
	return &ServerError{
		Server: s.client.ShardOf(key), Problem: "has a key, " + key + ", that is also used with another limit", OneKey: true,
		Fix: "use the same limits on all stores that share the prefix",
	}
}

// giveArgs returns the algorithm and the packed argument of the script that gives units back to stored, the packed
// state of another limit. It returns false if stored is not such a state.
func (r *request) giveArgs(stored string, receipt headgate.Receipt) (name headgate.Algorithm, packed string, ok bool) {
	var array [8]int64
	state, ok := r.plan.DecodeState(stored, array[:0])
	if !ok || r.plan.Owns(state) {
		return 0, "", false
	}
	name, a, b := state.LuaGiveBack(r.checkKey)
	args := make([]byte, 0, 5*numberSize)
	for _, n := range [...]int64{r.cost, r.plan.Capacity(), a, b, receipt.At - r.shift(state)} {
		args = appendNumber(args, n)
	}
	return name, string(args), true
}
