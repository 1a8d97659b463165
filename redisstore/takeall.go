package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

// TakeAll takes the units of all checks or of none, in one round trip for each owner. See [headgate.Limiter].
func (s *Store) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	keys, err := s.begin(ctx)
	if err != nil {
		return dst, err
	}
	for i := range checks {
		if err := validate(&checks[i]); err != nil {
			return dst, err
		}
	}
	if err := headgate.ValidateCombination(checks); err != nil {
		return dst, err
	}
	size := len(dst)
	for range checks {
		dst = append(dst, headgate.Decision{Allowed: true})
	}
	b := batch{store: s, keys: keys, checks: checks, decisions: dst[size:], before: make([]priorState, len(checks))}
	if err := b.take(ctx); err != nil {
		return dst[:size], err
	}
	return dst, nil
}

// A batch holds the checks of one TakeAll.
type batch struct {
	store     *Store
	keys      *keyMaker
	checks    []headgate.Check
	decisions []headgate.Decision
	before    []priorState // by check; the zero value until the check is decided
}

// take decides the checks owner by owner. If a group denies or fails, it gives back the units of the earlier groups.
func (b *batch) take(ctx context.Context) error {
	for first := range b.checks {
		if b.before[first].plan != nil { // decided in the group of an earlier check
			continue
		}
		group := b.group(first)
		allowed, err := b.takeGroup(ctx, group)
		if err != nil || !allowed {
			b.refundOthers(ctx, group)
			if err != nil {
				c := &b.checks[first]
				err = b.store.explainReply(err, b.keys.key(c.Owner, c.Key, unsplit, ""))
			}
			return err
		}
	}
	return nil
}

// group returns the indexes of the checks that are decided in one call together with the check first: those with the
// same owner. A check without an owner, or whose key is split, is decided alone.
func (b *batch) group(first int) []int {
	c := &b.checks[first]
	group := []int{first}
	if c.Owner == "" || partsOf(c) > 1 {
		return group
	}
	for i := first + 1; i < len(b.checks); i++ {
		if other := &b.checks[i]; other.Owner == c.Owner && partsOf(other) < 2 {
			group = append(group, i)
		}
	}
	return group
}

// takeGroup takes all checks of a group or none, and reports whether they are allowed.
func (b *batch) takeGroup(ctx context.Context, group []int) (bool, error) {
	if len(group) == 1 {
		return b.takeOne(ctx, group[0])
	}
	requests := make([]request, len(group))
	for j, i := range group {
		r, err := b.store.newRequest(b.keys, &b.checks[i], unsplit)
		if err != nil {
			return false, err
		}
		requests[j] = r
	}
	allowed, err := b.takeRequests(ctx, group, requests)
	if err == nil && allowed && b.keys.second != nil {
		allowed, err = b.takeSecond(ctx, group, requests)
	}
	if isTryAgain(err) {
		return b.takeOneByOne(ctx, group)
	}
	return allowed, err
}

// takeRequests takes all requests of a group or none, and reports whether they are allowed.
func (b *batch) takeRequests(ctx context.Context, group []int, requests []request) (bool, error) {
	op := opTake
	neverPasses := slices.ContainsFunc(requests, func(r request) bool { return r.neverPasses() })
	if neverPasses { // so nothing is taken
		op = opPeek
	}
	now, allowed, rest, err := b.runAll(ctx, op, requests)
	if err != nil {
		return false, err
	}
	taken := allowed && op == opTake
	var state string
	for j := range requests {
		if state, rest, err = cutState(rest); err != nil {
			return false, err
		}
		d, err := requests[j].decide(now, state, taken)
		if err != nil {
			return false, err
		}
		before := requests[j].priorState(now, state)
		if !taken && d.Allowed {
			d = before.withoutTake()
		}
		b.decisions[group[j]], b.before[group[j]] = d, before
	}
	return taken, nil
}

// takeSecond takes the requests of a group under Options.SecondSecret, after they were taken under Options.Secret. If
// this fails or is denied, it gives back the units that were taken under Options.Secret.
func (b *batch) takeSecond(ctx context.Context, group []int, requests []request) (bool, error) {
	first, firstBefore := make([]headgate.Decision, len(group)), make([]priorState, len(group))
	second := make([]request, len(group))
	var units int64
	for j, i := range group {
		first[j], firstBefore[j] = b.decisions[i], b.before[i]
		second[j] = *requests[j].underSecondSecret()
		units += first[j].Receipt.Units
	}
	allowed, err := b.takeRequests(ctx, group, second)
	if err != nil || !allowed {
		b.store.refund(ctx, units, func(ctx context.Context) {
			for j := range requests {
				b.store.refundKey(ctx, &requests[j], first[j].Receipt)
			}
		})
		return false, err
	}
	for j, i := range group {
		if first[j].Remaining <= b.decisions[i].Remaining {
			b.before[i] = firstBefore[j]
		}
		b.decisions[i] = tighter(first[j], b.decisions[i])
	}
	return true, nil
}

// runAll runs the script for several checks. It returns the server's time in µs, whether all are allowed, and the
// states before the checks.
func (b *batch) runAll(
	ctx context.Context, op string, requests []request,
) (now int64, ok bool, states string, err error) {
	sc := b.store.currentScripts().takeAll
	if op == opPeek {
		sc = b.store.currentScripts().peekAll
	}
	keys := make([]string, len(requests))
	for j := range requests {
		keys[j] = requests[j].key
	}
	for range maxStepCalls {
		args := append(make([]string, 0, 2+len(requests)), op)
		for j := range requests {
			args = append(args, requests[j].takeAllArgs())
		}
		reply, err := b.store.run(ctx, sc, keys, b.store.withTime(args))
		if err != nil {
			return 0, false, "", err
		}
		now, out, states, err := parseReply(reply)
		if err != nil || out != outcomeOtherLimit {
			return now, out == outcomeAllowed, states, err
		}
		if err := b.convertAll(requests, now, states); err != nil {
			return 0, false, "", err
		}
		if op == opPeek {
			return now, false, states, nil
		}
	}
	return 0, false, "", b.store.changingLimits(keys[0])
}

// convertAll prepares the requests whose keys have the state of another limit to replace that state.
func (b *batch) convertAll(requests []request, now int64, states string) error {
	for j := range requests {
		r := &requests[j]
		packed, rest, err := cutState(states)
		if err != nil {
			return err
		}
		states, r.conversion = rest, ""
		if state, ok := r.plan.DecodeState(packed, nil); ok && r.plan.Owns(state) {
			continue
		}
		if !r.convertFrom(now, packed) {
			return b.store.foreignKey(r.key)
		}
	}
	return nil
}

func (b *batch) takeOne(ctx context.Context, i int) (bool, error) {
	d, before, err := b.store.takeCheck(ctx, b.keys, &b.checks[i])
	b.decisions[i], b.before[i] = d, before
	return d.Allowed, err
}

// isTryAgain reports whether a call did nothing because the keys of one slot are on two servers while the slot moves.
func isTryAgain(err error) bool {
	var e *ServerError
	return errors.As(err, &e) && e.Err != nil && strings.HasPrefix(topology.ReplyText(e.Err), "TRYAGAIN")
}

// takeOneByOne takes the checks of one owner in a call for each, while their slot moves. If a check is denied, it gives
// back the units of the earlier checks and peeks at the later ones.
func (b *batch) takeOneByOne(ctx context.Context, group []int) (bool, error) {
	for j, i := range group {
		allowed, err := b.takeOne(ctx, i)
		if err == nil && allowed {
			continue
		}
		b.refund(ctx, slices.Clone(group[:j]))
		if err != nil {
			return false, err
		}
		return false, b.peek(ctx, group[j+1:])
	}
	return true, nil
}

// peek sets the decisions of checks that are not taken.
func (b *batch) peek(ctx context.Context, group []int) error {
	for _, i := range group {
		r, err := b.store.newRequest(b.keys, &b.checks[i], unsplit)
		if err != nil {
			return err
		}
		d, before, err := b.store.chargeOrPeekKey(ctx, &r, opPeek)
		if err != nil {
			return err
		}
		if d.Allowed {
			d = before.withoutTake()
		}
		b.decisions[i] = d
	}
	return nil
}

const (
	// refundWait is how long a caller waits for a refund.
	refundWait = 50 * time.Millisecond
	// refundTimeout is how long a refund may take in the background. It is long because units that are not given back are
	// lost, and a slow server or a moving slot may need the time.
	refundTimeout = 5 * time.Second
)

// refundOthers gives back the units of all checks outside a group, which has taken nothing.
func (b *batch) refundOthers(ctx context.Context, group []int) {
	var taken []int
	for i := range b.checks {
		if !slices.Contains(group, i) {
			taken = append(taken, i)
		}
	}
	b.refund(ctx, taken)
}

// refund gives back the units of those of the checks that have taken some. Only calls that got a response need a
// refund, so refunds cannot pile up while a server does not respond.
func (b *batch) refund(ctx context.Context, taken []int) {
	taken = slices.DeleteFunc(taken, func(i int) bool { return b.decisions[i].Receipt.Units == 0 })
	if len(taken) == 0 {
		return
	}
	// Copy the slices: the refund may run after TakeAll has returned, when the caller may reuse them.
	copied := batch{store: b.store, keys: b.keys, checks: slices.Clone(b.checks), decisions: slices.Clone(b.decisions)}
	var units int64
	for _, i := range taken {
		units += b.decisions[i].Receipt.Units
		b.forgetTake(i)
	}
	b.store.refund(ctx, units, func(ctx context.Context) {
		for _, i := range taken {
			copied.refundOne(ctx, i)
		}
	})
}

// refund runs giveBack in the background. The caller waits for giveBack to end, but not longer than refundWait. If the
// store is closed, the units are lost.
func (s *Store) refund(ctx context.Context, units int64, giveBack func(context.Context)) {
	if units == 0 {
		return
	}
	done := make(chan struct{})
	started := s.background.Start(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), refundTimeout)
		defer cancel()
		giveBack(ctx)
	})
	if !started {
		s.lostRefunds.Add(units)
		return
	}
	timer := s.clock.NewTimer(refundWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-timer.C():
	}
}

func (b *batch) refundOne(ctx context.Context, i int) {
	c := b.checks[i]
	c.Cost = b.decisions[i].Receipt.Units
	if err := b.store.give(ctx, b.keys, &c, b.decisions[i].Receipt); err != nil {
		b.store.lostRefunds.Add(c.Cost)
	}
}

// forgetTake replaces the decision of a check by the decision without its take.
func (b *batch) forgetTake(i int) {
	c, d := &b.checks[i], b.before[i].withoutTake()
	if parts := partsOf(c); parts > 1 {
		d = extrapolate(c, parts, d)
	}
	b.decisions[i] = d
}
