package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
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
		if err := validate(&checks[i]); err != nil {
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
	r := round{store: s, keys: keys, checks: checks, decisions: dst[before:], before: make([]found, len(checks))}
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
	before    []found // of the checks that were asked
}

// take asks the owners in turn, and gives back what they took if a later one denies or fails.
func (r *round) take(ctx context.Context) error {
	for first := range r.checks {
		if r.before[first].plan != nil { // it was taken together with one before
			continue
		}
		group := r.group(first)
		allowed, err := r.takeGroup(ctx, group)
		if err != nil || !allowed {
			r.giveBack(ctx, group)
			if err != nil {
				err = r.store.named(err, r.keys.key(r.checks[first].Owner, r.checks[first].Key, unsplit))
			}
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

// takeGroup takes all or none of the checks of one owner, and reports whether they allow.
func (r *round) takeGroup(ctx context.Context, group []int) (bool, error) {
	if len(group) == 1 {
		return r.takeOne(ctx, group[0])
	}
	asks := make([]ask, len(group))
	keys := make([]string, len(group))
	idle, never := true, false
	for j, i := range group {
		a, err := r.store.ask(r.keys, &r.checks[i], unsplit)
		if err != nil {
			return false, err
		}
		asks[j], keys[j] = a, a.key
		idle = idle && a.n == 0
		never = never || a.never()
	}
	sc, op := r.store.program().takeAll, opTake
	if idle || never { // then none is taken, and all that is wanted is to see how they are
		sc, op = r.store.program().lookAll, opLook
	}
	now, allowed, rest, err := r.ask(ctx, sc, op, keys, asks)
	if scattered(err) {
		return r.takeApart(ctx, group)
	}
	if err != nil {
		return false, err
	}
	taken := allowed && op == opTake
	var state string
	for j := range asks {
		if state, rest, err = readFound(rest); err != nil {
			return false, err
		}
		d, err := asks[j].decide(now, state, taken)
		if err != nil {
			return false, err
		}
		before := asks[j].found(now, state)
		if !taken && d.Allowed {
			d = before.untaken()
		}
		r.decisions[group[j]], r.before[group[j]] = d, before
	}
	return allowed && !never, nil
}

// ask has a server decide asks together, and returns its time, whether all are allowed, and the states that it found.
func (r *round) ask(ctx context.Context, sc *script, op string, keys []string, asks []ask) (now int64, ok bool, rest string, err error) {
	for range carryTries {
		args := append(make([]string, 0, 2+len(asks)), op)
		for j := range asks {
			args = append(args, asks[j].numbersOf())
		}
		answer, err := r.store.run(ctx, sc, keys, r.store.timed(args))
		if err != nil {
			return 0, false, "", err
		}
		now, out, rest, err := readAnswer(answer)
		if err != nil || out != changed {
			return now, out == allowed, rest, err
		}
		states := rest
		for j := range asks {
			var found string
			if found, rest, err = readFound(rest); err != nil {
				return 0, false, "", err
			}
			asks[j].carried = ""
			if state, ok := asks[j].plan.Found(found, nil); ok && asks[j].plan.Owns(state) {
				continue
			}
			if !asks[j].carry(now, found) {
				return 0, false, "", r.store.foreign(keys[j])
			}
		}
		if op == opLook {
			return now, false, states, nil
		}
	}
	return 0, false, "", r.store.changing(keys[0])
}

func (r *round) takeOne(ctx context.Context, i int) (bool, error) {
	c := &r.checks[i]
	if parts := partsOf(c); parts > 1 {
		d, before, err := r.store.takeSplit(ctx, r.keys, c, parts)
		r.decisions[i], r.before[i] = d, before
		return d.Allowed, err
	}
	a, err := r.store.ask(r.keys, c, unsplit)
	if err != nil {
		return false, err
	}
	d, before, err := r.store.take(ctx, &a)
	r.decisions[i], r.before[i] = d, before
	return d.Allowed, err
}

// scattered reports whether keys of one slot cannot be asked together because it is moving from one server to another. Nothing
// was done.
func scattered(err error) bool {
	var e *ServerError
	return errors.As(err, &e) && e.Err != nil && strings.HasPrefix(replyText(e.Err), "TRYAGAIN")
}

// takeApart takes the checks of one owner one by one, while their slot is moving, and gives back what it took if one
// denies. The others are looked at.
func (r *round) takeApart(ctx context.Context, group []int) (bool, error) {
	for j, i := range group {
		allowed, err := r.takeOne(ctx, i)
		if err == nil && allowed {
			continue
		}
		r.returnAll(ctx, slices.Clone(group[:j]))
		if err != nil {
			return false, err
		}
		for _, k := range group[j+1:] {
			a, err := r.store.ask(r.keys, &r.checks[k], unsplit)
			if err != nil {
				return false, err
			}
			now, _, state, err := r.store.step(ctx, opLook, &a)
			if err != nil {
				return false, err
			}
			d, err := a.decide(now, state, false)
			if err != nil {
				return false, err
			}
			if d.Allowed {
				d = a.found(now, state).untaken()
			}
			r.decisions[k] = d
		}
		return false, nil
	}
	return true, nil
}

const (
	// refundWait is how long a caller is held until what it took for nothing has been returned.
	refundWait = 50 * time.Millisecond
	// refundTime is how long a server has for that. It is as long as a call is tried that has no deadline: a refund that is
	// given up is a loss, unlike a decision, and a slow server or a slot that moves may need it.
	refundTime = maxTrying
)

// giveBack returns what was taken before the last group, which took nothing.
func (r *round) giveBack(ctx context.Context, last []int) {
	var owed []int
	for i := range r.checks {
		if !slices.Contains(last, i) {
			owed = append(owed, i)
		}
	}
	r.returnAll(ctx, owed)
}

// returnAll returns what checks took. The caller waits for it while it has time, but not longer than refundWait. No more
// refunds are under way than calls were when the server became slow: a call that is not answered takes nothing.
func (r *round) returnAll(ctx context.Context, owed []int) {
	owed = slices.DeleteFunc(owed, func(i int) bool { return r.decisions[i].Receipt.Units == 0 })
	if len(owed) == 0 {
		return
	}
	back := round{store: r.store, keys: r.keys, checks: slices.Clone(r.checks), decisions: slices.Clone(r.decisions)}
	for _, i := range owed {
		r.untake(i)
	}
	done := make(chan struct{})
	started := r.store.start(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), refundTime) // the caller's is its own again when it returns
		defer cancel()
		for _, i := range owed {
			back.returnOne(ctx, i)
		}
	})
	if !started {
		for _, i := range owed {
			r.store.lostRefunds.Add(back.decisions[i].Receipt.Units)
		}
		return
	}
	timer := time.NewTimer(refundWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// returnOne gives back what a check took.
func (r *round) returnOne(ctx context.Context, i int) {
	c := r.checks[i]
	c.Cost = r.decisions[i].Receipt.Units
	if err := r.store.give(ctx, r.keys, &c, r.decisions[i].Receipt); err != nil {
		r.store.lostRefunds.Add(c.Cost)
	}
}

// untake makes of a decision what it would be if nothing had been taken.
func (r *round) untake(i int) {
	c, d := &r.checks[i], r.before[i].untaken()
	if parts := partsOf(c); parts > 1 {
		d = ofWhole(c, parts, d)
	}
	r.decisions[i] = d
}
