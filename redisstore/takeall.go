package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// TakeAll decides several checks as one, in one round trip for each owner. See [headgate.Limiter].
func (s *Store) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	keys, err := s.admit(ctx)
	if err != nil {
		return dst, err
	}
	for i := range checks {
		if err := checks[i].Validate(); err != nil {
			return dst, err
		}
	}
	if err := headgate.ValidateAll(checks); err != nil {
		return dst, err
	}
	before := len(dst)
	for range checks {
		dst = append(dst, headgate.Decision{Allowed: true})
	}
	r := round{store: s, keys: keys, checks: checks, decisions: dst[before:]}
	if err := r.take(ctx); err != nil {
		return dst[:before], err
	}
	return dst, nil
}

// A round is one TakeAll.
type round struct {
	store     *Store
	keys      *keyMaker
	checks    []headgate.Check
	decisions []headgate.Decision
}

// take asks the owners in turn, and gives back what they took if a later one denies or fails.
func (r *round) take(ctx context.Context) error {
	asked := make([]bool, len(r.checks))
	for first := range r.checks {
		if asked[first] {
			continue
		}
		group := r.group(first)
		for _, i := range group {
			asked[i] = true
		}
		allowed, err := r.takeGroup(ctx, group)
		if err != nil || !allowed {
			r.giveBack(ctx, group)
			return err
		}
	}
	return nil
}

// group returns which checks are decided with the first: those of the same owner. A key without one, or that is counted
// in parts, is alone.
func (r *round) group(first int) []int {
	c := &r.checks[first]
	group := []int{first}
	if c.Owner == "" || partsOf(c) > 1 {
		return group
	}
	for i := first + 1; i < len(r.checks); i++ {
		if other := &r.checks[i]; other.Owner == c.Owner && partsOf(other) < 2 {
			group = append(group, i)
		}
	}
	return group
}

// takeGroup takes all or none of the checks of one owner, and tells whether they allow.
func (r *round) takeGroup(ctx context.Context, group []int) (bool, error) {
	if len(group) == 1 {
		i := group[0]
		c := &r.checks[i]
		if parts := partsOf(c); parts > 1 {
			d, err := r.store.takeSplit(ctx, r.keys, c, parts)
			r.decisions[i] = d
			return d.Allowed, err
		}
		a, err := r.store.ask(r.keys, c, unsplit)
		if err != nil {
			return false, err
		}
		d, err := r.store.take(ctx, &a)
		r.decisions[i] = d
		return d.Allowed, err
	}
	asks := make([]ask, len(group))
	keys := make([]string, len(group))
	sc, op := r.store.program().takeAll, opTake
	idle := true
	for j, i := range group {
		a, err := r.store.ask(r.keys, &r.checks[i], unsplit)
		if err != nil {
			return false, err
		}
		asks[j], keys[j] = a, a.key
		idle = idle && a.n == 0
		if a.never() { // then none is taken, and all that is wanted is to see how they are
			sc, op = r.store.program().lookAll, opLook
		}
	}
	if idle {
		sc, op = r.store.program().lookAll, opLook
	}
	args := append(make([]string, 0, 2+5*len(asks)), r.store.time(), op)
	for j := range asks {
		args = asks[j].numbers(append(args, asks[j].plan.number))
	}
	answer, err := r.store.run(ctx, sc, keys, args)
	if err != nil {
		return false, err
	}
	now, allowed, rest, err := readAnswer(answer)
	if err != nil {
		return false, err
	}
	taken := allowed && op == opTake
	var found string
	for j := range asks {
		if found, rest, err = readFound(rest); err != nil {
			return false, err
		}
		d, err := asks[j].decide(now, found, taken)
		if err != nil {
			return false, err
		}
		if !taken && d.Allowed { // it would have been, but for the others
			a := asks[j]
			a.n = 0
			if d, err = a.decide(now, found, false); err != nil {
				return false, err
			}
		}
		r.decisions[group[j]] = d
	}
	return allowed && !slices.ContainsFunc(asks, func(a ask) bool { return a.never() }), nil
}

// refundTime is how long giving back may take after a round that failed or was denied.
const refundTime = 50 * time.Millisecond

// giveBack returns what was taken before the last group, which took nothing, and leaves the decisions of these checks
// as what they would be without: allowed, and nothing taken. It does so even if the caller has no time left.
func (r *round) giveBack(ctx context.Context, last []int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTime)
	defer cancel()
	for i := range r.checks {
		d := &r.decisions[i]
		if d.Receipt.Units == 0 || slices.Contains(last, i) {
			continue
		}
		c := r.checks[i]
		c.Cost = d.Receipt.Units
		a, receipt, err := r.store.refund(r.keys, &c, d.Receipt)
		if err == nil {
			_, _, _, err = r.store.step(ctx, opGive, &a, receipt)
		}
		if err != nil {
			r.store.lostRefunds.Add(1)
		}
		d.Remaining += d.Receipt.Units
		d.Receipt, d.Delay = headgate.Receipt{}, 0
	}
}
