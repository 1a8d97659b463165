package redisstore

import (
	"errors"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A plan is a limit made ready for this store.
type plan struct {
	*algorithm.Plan
	algorithm headgate.Algorithm
	one       string // the numbers of a cost of 1, if they are the same for all keys
	letter    string // which ends its keys
}

func newPlan(limit headgate.Limit) (*plan, error) {
	p, err := algorithm.NewPlan(limit)
	if err != nil {
		return nil, err
	}
	made := &plan{Plan: p, algorithm: limit.Algorithm, letter: letterOf(p.Kind())}
	if !limit.Staggered && p.Kind() != algorithm.KindLeases {
		made.one = string((&ask{plan: made, n: 1}).pack(nil))
	}
	return made, nil
}

// What a script is asked to do, as take.lua calls it.
const (
	opTake   = "take"
	opLook   = "look"
	opCharge = "charge"
	opGive   = "give"
	opRenew  = "renew"
)

// An ask is one check on its way to a server.
type ask struct {
	plan   *plan
	name   string // of the key
	key    string // in Redis
	n      int64
	offset int64 // by how much the key's clock is behind the server's
	lease  uint64
	// carried is what a script is told of the state of another limit, "" if there is none. See carry.lua.
	carried string
}

// never reports whether the cost cannot pass whatever the state.
func (a *ask) never() bool { return a.n > a.plan.Capacity() }

// numbers returns the numbers of take.lua, with more of them if there are any.
func (a *ask) numbers(more ...int64) string {
	if a.n == 1 && len(more) == 0 && a.plan.one != "" {
		return a.plan.one + a.carried
	}
	var room [6 * numberSize]byte
	packed := a.pack(room[:0])
	for _, n := range more {
		packed = appendNumber(packed, n)
	}
	return string(packed) + a.carried
}

// numbersOf returns the numbers of takeall.lua.
func (a *ask) numbersOf() string {
	var room [1 + 4*numberSize]byte
	return string(a.pack(append(room[:0], byte(a.plan.algorithm)))) + a.carried
}

func (a *ask) pack(dst []byte) []byte {
	x, y := a.plan.LuaArgs(a.offset, a.lease)
	for _, n := range [...]int64{a.n, a.plan.Capacity(), x, y} {
		dst = appendNumber(dst, n)
	}
	return dst
}

const numberSize = 7

// appendNumber appends a number as scripts read it.
func appendNumber(dst []byte, n int64) []byte {
	return append(dst, byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// decide returns what a script's answer says of a take or a look: now and the state are as the script found them, and
// the step is made once more, to see what remains and when to come back.
func (a *ask) decide(now int64, found string, taken bool) (headgate.Decision, error) {
	now -= a.offset
	if taken && a.plan.IsPair() { // as nearly all are
		return a.tookPair(now, found)
	}
	var room [8]int64
	state, ok := a.plan.Found(found, room[:0])
	if !ok {
		return headgate.Decision{}, errAnswer
	}
	if !taken {
		return a.plan.Decide(a.plan.Carry(state, a.shift(state), now), now, a.n), nil
	}
	_, d := a.plan.Take(state, now, a.n, a.lease)
	if !d.Allowed {
		return headgate.Decision{}, errAnswer
	}
	return d, nil
}

// A found is the state that a script found, and when, by the key's clock.
type found struct {
	plan  *plan
	now   int64
	state string
}

func (a *ask) found(now int64, state string) found {
	return found{plan: a.plan, now: now - a.offset, state: state}
}

// untaken returns the decision about a check that would have been allowed but for others: it says how the key was found.
// The state must have been decided on before.
func (f found) untaken() headgate.Decision {
	var room [8]int64
	state, _ := f.plan.Found(f.state, room[:0])
	return f.plan.Decide(state, f.now, 0)
}

func (a *ask) tookPair(now int64, found string) (headgate.Decision, error) {
	pair, ok := a.pair(found)
	if ok {
		pair, ok = a.plan.TakePair(pair, now, a.n)
	}
	if !ok {
		return headgate.Decision{}, errAnswer
	}
	return a.plan.DescribeTaken(pair, now, a.n), nil
}

// charged returns what a script's answer says of a charge.
func (a *ask) charged(now int64, found string) (headgate.Decision, error) {
	now -= a.offset
	if a.plan.IsPair() {
		pair, ok := a.pair(found)
		if !ok {
			return headgate.Decision{}, errAnswer
		}
		_, d := a.plan.ChargePair(pair, now, a.n)
		return d, nil
	}
	var room [8]int64
	state, ok := a.plan.Found(found, room[:0])
	if !ok {
		return headgate.Decision{}, errAnswer
	}
	_, d, err := a.plan.Charge(state, now, a.n)
	return d, err
}

// pair reads a state that is one. Unlike others it need not be on the heap.
func (a *ask) pair(found string) (pair algorithm.Pair, ok bool) {
	var room [8]int64
	state, ok := a.plan.Found(found, room[:0])
	if ok && len(state) > 0 {
		pair = algorithm.PairOf(state)
	}
	return pair, ok
}

// errAnswer is returned when a script's answer is not one.
var errAnswer = errors.New("not an answer of this version's scripts")

// named adds to errAnswer whose answer it was. Other errors stay as they are.
func (s *Store) named(err error, key string) error {
	if !errors.Is(err, errAnswer) {
		return err
	}
	return &ServerError{
		Server: s.conn.shardOf(s.conn.slotOf(key)), What: "gave an answer that we don't understand", Err: err, ofKey: true,
		Cure: "is everything that shares the prefix of the same version, and nothing between that changes answers?",
	}
}

// An outcome is what a script says of a step.
type outcome byte

const (
	denied outcome = iota
	allowed
	changed // there is a state of another limit, and nothing was done
)

// readAnswer splits a script's answer into its time, its outcome, and the rest.
func readAnswer(answer string) (now int64, o outcome, rest string, err error) {
	const head = numberSize + 1
	if len(answer) < head || answer[head-1] > byte(changed) {
		return 0, denied, "", errAnswer
	}
	for i := range numberSize {
		now = now<<8 | int64(answer[i])
	}
	return now, outcome(answer[head-1]), answer[head:], nil
}

// readFound takes the state of one key off the rest of an answer for several.
func readFound(rest string) (found, more string, err error) {
	if len(rest) < 2 {
		return "", "", errAnswer
	}
	size := int(rest[0])<<8 | int(rest[1])
	if len(rest) < 2+size {
		return "", "", errAnswer
	}
	return rest[2 : 2+size], rest[2+size:], nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
