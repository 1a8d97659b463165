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
	number    string // of the algorithm
	capacity  string
	letter    string // of its kind, which ends its keys
}

func newPlan(limit headgate.Limit) (*plan, error) {
	p, err := algorithm.NewPlan(limit)
	if err != nil {
		return nil, err
	}
	return &plan{
		Plan: p, algorithm: limit.Algorithm,
		number:   strconv.Itoa(int(limit.Algorithm)),
		capacity: decimal(p.Capacity()),
		letter:   string(kindLetters[p.Kind()]),
	}, nil
}

// What a script is asked to do, as take.lua calls it.
const (
	opTake   = "take"
	opLook   = "look"
	opCharge = "charge"
	opGive   = "give"
)

// An ask is one check on its way to a server.
type ask struct {
	plan   *plan
	key    string // in Redis
	n      int64
	offset int64 // by how much the key's clock is behind the server's
	lease  uint64
}

// never tells whether the cost cannot pass whatever the state.
func (a *ask) never() bool { return a.n > a.plan.Capacity() }

// numbers appends the numbers of take.lua from n on.
func (a *ask) numbers(args []string) []string {
	x, y := a.plan.LuaArgs(a.offset, a.lease)
	return append(args, decimal(a.n), a.plan.capacity, decimal(x), decimal(y))
}

// decide returns what a script's answer says of a take or a look: now and the state are as the script found them, and
// the step is made once more, to see what remains and when to come back.
func (a *ask) decide(now int64, found string, taken bool) (headgate.Decision, error) {
	var room [8]int64
	state, ok := a.plan.Found(found, room[:0])
	if !ok {
		return headgate.Decision{}, errAnswer
	}
	now -= a.offset
	if !taken {
		return a.plan.Decide(state, now, a.n), nil
	}
	_, d := a.plan.Take(state, now, a.n, a.lease)
	if !d.Allowed {
		return headgate.Decision{}, errAnswer
	}
	return d, nil
}

// charged returns what a script's answer says of a charge.
func (a *ask) charged(now int64, found string) (headgate.Decision, error) {
	var room [8]int64
	state, ok := a.plan.Found(found, room[:0])
	if !ok {
		return headgate.Decision{}, errAnswer
	}
	_, d, err := a.plan.Charge(state, now-a.offset, a.n)
	return d, err
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

// readAnswer splits a script's answer into its time, whether it allows, and the rest.
func readAnswer(answer string) (now int64, allowed bool, rest string, err error) {
	const head = 8
	if len(answer) < head {
		return 0, false, "", errAnswer
	}
	for i := range head - 1 {
		now = now<<8 | int64(answer[i])
	}
	return now, answer[head-1] == 1, answer[head:], nil
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
