package redisstore

import (
	"errors"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A plan is a limit prepared for this store.
type plan struct {
	*algorithm.Plan
	algorithm headgate.Algorithm
	costOne   string // the packed arguments for a cost of 1, or "" if they depend on the key
	suffix    string // of its keys
}

func newPlan(limit headgate.Limit) (*plan, error) {
	p, err := algorithm.NewPlan(limit)
	if err != nil {
		return nil, err
	}
	prepared := &plan{Plan: p, algorithm: limit.Algorithm, suffix: suffixOf(p.Kind())}
	if !limit.Staggered && p.Kind() != algorithm.KindLeases {
		prepared.costOne = string((&request{plan: prepared, cost: 1}).pack(nil))
	}
	return prepared, nil
}

// The operations of take.lua.
const (
	opTake   = "take"
	opPeek   = "look"
	opCharge = "charge"
	opGive   = "give"
	opRenew  = "renew"
)

// A request is one check prepared for a script.
type request struct {
	plan   *plan
	name   string // of the key, as in the check
	key    string // in Redis
	second string // its key under the second secret, or ""
	cost   int64
	offset int64 // how far the key's clock is behind the server's, in µs
	lease  uint64
	// carried is the packed state of another limit that the script must replace, or "". See carry.lua.
	carried string
}

// newRequest prepares a valid check.
func (s *Store) newRequest(keys *keyMaker, c *headgate.Check, part int) (request, error) {
	p, err := s.plans.Get(&c.Limit, newPlan)
	if err != nil {
		return request{}, err
	}
	r := request{
		plan: p, name: c.Key, cost: c.Cost, offset: p.Offset(c.Key), key: keys.key(c.Owner, c.Key, part, p.suffix),
	}
	if keys.second != nil {
		r.second = keys.second.key(c.Owner, c.Key, part, p.suffix)
	}
	if p.Kind() == algorithm.KindLeases && c.Cost > 0 {
		r.lease = s.newLease()
	}
	return r, nil
}

// newLease returns a random lease ID that scripts can represent, in 53 bits.
func (s *Store) newLease() uint64 { return uint64(s.rand(1<<53)) | 1<<partBits }

// neverPasses reports whether the cost exceeds the limit's capacity.
func (r *request) neverPasses() bool { return r.cost > r.plan.Capacity() }

// args returns the packed arguments of take.lua, followed by more numbers.
func (r *request) args(more ...int64) string {
	if r.cost == 1 && len(more) == 0 && r.plan.costOne != "" {
		return r.plan.costOne + r.carried
	}
	var array [6 * numberSize]byte
	packed := r.pack(array[:0])
	for _, n := range more {
		packed = appendNumber(packed, n)
	}
	return string(packed) + r.carried
}

// argsOfAll returns the packed arguments of takeall.lua.
func (r *request) argsOfAll() string {
	var array [1 + 4*numberSize]byte
	return string(r.pack(append(array[:0], byte(r.plan.algorithm)))) + r.carried
}

func (r *request) pack(dst []byte) []byte {
	x, y := r.plan.LuaArgs(r.offset, r.lease)
	for _, n := range [...]int64{r.cost, r.plan.Capacity(), x, y} {
		dst = appendNumber(dst, n)
	}
	return dst
}

// numberSize is the size of a packed number: 56 bits, big-endian.
const numberSize = 7

func appendNumber(dst []byte, n int64) []byte {
	return append(dst, byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// decide returns the decision of a take or peek. The script returned its time and the state before the step; the step
// is made once more here, to find out what remains and when to retry.
func (r *request) decide(now int64, packed string, allowed bool) (headgate.Decision, error) {
	now -= r.offset
	var array [8]int64
	state, ok := r.plan.DecodeState(packed, array[:0])
	if !ok {
		return headgate.Decision{}, errMalformed
	}
	if !allowed {
		return r.plan.Peek(r.plan.Carry(state, r.shift(state), now), now, r.cost), nil
	}
	_, d := r.plan.Take(state, now, r.cost, r.lease)
	if !d.Allowed {
		return headgate.Decision{}, errMalformed
	}
	return d, nil
}

// A foundState is the state of a key before a step, and when the step was made by the key's clock.
type foundState struct {
	plan  *plan
	now   int64
	state string
}

func (r *request) found(now int64, state string) foundState {
	return foundState{plan: r.plan, now: now - r.offset, state: state}
}

// untaken returns the decision of a check that was allowed but is not taken, because another one is denied. The state
// must be valid.
func (f foundState) untaken() headgate.Decision {
	var array [8]int64
	state, _ := f.plan.DecodeState(f.state, array[:0])
	return f.plan.Decide(state, f.now, 0)
}

// decideCharge returns the decision of a charge.
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

// errMalformed is the error of a reply that is not from a script of this version.
var errMalformed = errors.New("not a reply of this version's scripts")

// explainReply adds the server to errMalformed. It returns other errors unchanged.
func (s *Store) explainReply(err error, key string) error {
	if !errors.Is(err, errMalformed) {
		return err
	}
	return &ServerError{
		Server: s.client.ShardOf(key), Problem: "sent a malformed reply", Err: err, OneKey: true,
		Fix: "use one version for all stores that share the prefix, and no proxy that changes replies",
	}
}

// An outcome is what a script did.
type outcome byte

const (
	denied outcome = iota
	allowed
	changed // nothing: it found a state of another limit
)

// parseReply splits a script's reply into its time, its outcome, and the state or states.
func parseReply(reply string) (now int64, out outcome, rest string, err error) {
	const headSize = numberSize + 1
	if len(reply) < headSize || reply[headSize-1] > byte(changed) {
		return 0, denied, "", errMalformed
	}
	for i := range numberSize {
		now = now<<8 | int64(reply[i])
	}
	return now, outcome(reply[headSize-1]), reply[headSize:], nil
}

// cutState cuts the first state off the rest of a reply about several keys.
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
