package redisstore

import (
	"errors"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A plan holds everything about a limit that requests need.
type plan struct {
	*algorithm.Plan
	algorithm   headgate.Algorithm
	costOneArgs string // the packed arguments for a cost of 1, or "" if they depend on the request
	keySuffix   string // the suffix of Redis keys
}

func newPlan(limit headgate.Limit) (*plan, error) {
	p, err := algorithm.NewPlan(limit)
	if err != nil {
		return nil, err
	}
	prepared := &plan{Plan: p, algorithm: limit.Algorithm, keySuffix: suffixOf(p.Kind())}
	if !limit.Staggered && p.Kind() != algorithm.KindLeases {
		prepared.costOneArgs = string((&request{plan: prepared, cost: 1}).appendArgs(nil))
	}
	return prepared, nil
}

// The operations of take.lua, by their names there.
const (
	opTake   = "take"
	opPeek   = "look"
	opCharge = "charge"
	opGive   = "give"
	opRenew  = "renew"
)

// A request holds everything about one check that a script needs.
type request struct {
	plan      *plan
	checkKey  string // the key in the check
	key       string // the Redis key
	secondKey string // the Redis key under Options.SecondSecret, or ""
	cost      int64
	offset    int64  // how far the key's clock is behind the server's, in µs; see algorithm.Plan.Offset
	lease     uint64 // ID of the slot, for concurrency limits
	// conversion is an additional argument of the script if the key has the state of another limit. It says which state
	// the script must find and replace, and how many units were consumed under the other limit. Otherwise it is "".
	conversion string
}

// newRequest returns the request for a valid check. part is the part of a split key, or unsplit.
func (s *Store) newRequest(keys *keyMaker, c *headgate.Check, part int) (request, error) {
	p, err := s.plans.Get(&c.Limit, newPlan)
	if err != nil {
		return request{}, err
	}
	r := request{
		plan: p, checkKey: c.Key, cost: c.Cost, offset: p.Offset(c.Key),
		key: keys.key(c.Owner, c.Key, part, p.keySuffix),
	}
	if keys.second != nil {
		r.secondKey = keys.second.key(c.Owner, c.Key, part, p.keySuffix)
	}
	if p.Kind() == algorithm.KindLeases && c.Cost > 0 {
		r.lease = s.newLease()
	}
	return r, nil
}

// newLease returns a random lease ID of 53 bits, the most that Lua represents exactly. The ID is not zero, even if the
// number of a part replaces its last bits.
func (s *Store) newLease() uint64 { return uint64(s.rand(1<<53)) | 1<<partBits }

// neverPasses reports whether the cost exceeds the limit's capacity.
func (r *request) neverPasses() bool { return r.cost > r.plan.Capacity() }

// args returns the packed argument of take.lua. More numbers are appended for giving units back and for grant.lua.
func (r *request) args(more ...int64) string {
	if r.cost == 1 && len(more) == 0 && r.plan.costOneArgs != "" {
		return r.plan.costOneArgs + r.conversion
	}
	var array [6 * numberSize]byte
	packed := r.appendArgs(array[:0])
	for _, n := range more {
		packed = appendNumber(packed, n)
	}
	return string(packed) + r.conversion
}

// takeAllArgs returns the packed argument of takeall.lua for this request.
func (r *request) takeAllArgs() string {
	var array [1 + 4*numberSize]byte
	return string(r.appendArgs(append(array[:0], byte(r.plan.algorithm)))) + r.conversion
}

// appendArgs appends the cost, the capacity, and the two numbers of algorithm.Plan.LuaArgs.
func (r *request) appendArgs(dst []byte) []byte {
	a, b := r.plan.LuaArgs(r.offset, r.lease)
	for _, n := range [...]int64{r.cost, r.plan.Capacity(), a, b} {
		dst = appendNumber(dst, n)
	}
	return dst
}

// numberSize is the size of a packed number in bytes. Packed numbers are big-endian.
const numberSize = 7

func appendNumber(dst []byte, n int64) []byte {
	return append(dst, byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// decide returns the decision of a take or peek. The script has returned only its time, now, in µs, whether the take is
// allowed, and the packed state before the step. decide repeats the step in Go, to compute the remaining units and the
// time until a retry.
func (r *request) decide(now int64, packed string, allowed bool) (headgate.Decision, error) {
	now -= r.offset
	var array [8]int64 // keeps most states off the heap
	state, ok := r.plan.DecodeState(packed, array[:0])
	if !ok {
		return headgate.Decision{}, errMalformed
	}
	if !allowed {
		return r.plan.Peek(r.plan.Convert(state, r.shift(state), now), now, r.cost), nil
	}
	_, d := r.plan.Take(state, now, r.cost, r.lease)
	if !d.Allowed {
		return headgate.Decision{}, errMalformed
	}
	return d, nil
}

// A priorState is the state of a key before a step, together with the time of the step.
type priorState struct {
	plan   *plan
	now    int64 // by the key's clock, in µs
	packed string
}

func (r *request) priorState(now int64, packed string) priorState {
	return priorState{plan: r.plan, now: now - r.offset, packed: packed}
}

// withoutTake returns the decision of a check that was allowed but has taken nothing, because another check was denied.
// The state must be valid.
func (p priorState) withoutTake() headgate.Decision {
	var array [8]int64
	state, _ := p.plan.DecodeState(p.packed, array[:0])
	return p.plan.Decide(state, p.now, 0)
}

// decideCharge returns the decision of a charge. Its parameters are those of decide.
func (r *request) decideCharge(now int64, packed string) (headgate.Decision, error) {
	now -= r.offset
	var array [8]int64
	state, ok := r.plan.DecodeState(packed, array[:0])
	if !ok {
		return headgate.Decision{}, errMalformed
	}
	_, d, err := r.plan.Charge(state, now, r.cost)
	return d, err
}

// errMalformed is the error for a reply that a script of this version cannot have sent.
var errMalformed = errors.New("not a reply of this version's scripts")

// explainReply turns errMalformed into a *ServerError. It returns other errors unchanged.
func (s *Store) explainReply(err error, key string) error {
	if !errors.Is(err, errMalformed) {
		return err
	}
	return &ServerError{
		Server: s.client.ShardOf(key), Problem: "sent a malformed reply", Err: err, OneKey: true,
		Fix: "use one version for all stores that share the prefix, and no proxy that changes replies",
	}
}

// An outcome is the result of a script, as the scripts encode it.
type outcome byte

const (
	outcomeDenied outcome = iota
	outcomeAllowed
	outcomeOtherLimit // the script found a state of another limit and did nothing
)

// parseReply splits a script's reply into the script's time in µs, the outcome, and the rest: one or several states.
func parseReply(reply string) (now int64, out outcome, rest string, err error) {
	const headSize = numberSize + 1
	if len(reply) < headSize || reply[headSize-1] > byte(outcomeOtherLimit) {
		return 0, outcomeDenied, "", errMalformed
	}
	for i := range numberSize {
		now = now<<8 | int64(reply[i])
	}
	return now, outcome(reply[headSize-1]), reply[headSize:], nil
}

// cutState splits the rest of a reply about several keys into the first state and the others. Two bytes before a state
// hold its length.
func cutState(rest string) (state, others string, err error) {
	if len(rest) < 2 {
		return "", "", errMalformed
	}
	size := int(rest[0])<<8 | int(rest[1])
	if len(rest) < 2+size {
		return "", "", errMalformed
	}
	return rest[2 : 2+size], rest[2+size:], nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
