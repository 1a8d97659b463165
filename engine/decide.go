package engine

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// Decide decides a request by all rules that match it, and takes from all their limits or from none. The result is in
// v. An error means that ctx has ended: then nothing is held, and the verdict is invalid. A failing store is no error:
// the rules' policies decide.
func (e *Engine) Decide(ctx context.Context, s rules.Subject, v *Verdict) error {
	return e.decide(ctx, s, &Terms{}, v, false)
}

// DecideRule is Decide by one rule alone, without evaluating its condition. It returns ErrNoRule if no rule with that
// id is in force.
func (e *Engine) DecideRule(ctx context.Context, id string, s rules.Subject, v *Verdict) error {
	if id == "" {
		return fmt.Errorf("%w: %q", ErrNoRule, id)
	}
	return e.decide(ctx, s, &Terms{Rule: id}, v, false)
}

// DecideMore is Decide for another part of a request that is being served, such as a message of its stream. The request
// already holds its slots, so concurrency limits are not checked.
func (e *Engine) DecideMore(ctx context.Context, s rules.Subject, v *Verdict) error {
	return e.decide(ctx, s, &Terms{}, v, true)
}

// sampling is the number of decisions of which one is measured.
const sampling = 32

// begin returns the start of a decision, zero if it is not measured.
func (e *Engine) begin() (start time.Time) {
	if e.config.Observe != nil && rand.Uint32()%sampling == 0 {
		start = time.Now()
	}
	return start
}

func (e *Engine) decide(ctx context.Context, s rules.Subject, t *Terms, v *Verdict, more bool) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	start := e.begin()
	v.reset(e)
	if err := v.match(s, t.Rule); err != nil {
		return err
	}
	if err := v.decide(ctx, s, t, more); err != nil {
		v.reset(e)
		return err
	}
	if !t.peeks() {
		v.observe(start)
	}
	return nil
}

// observe reports a decision that began at start, zero if it is not measured.
func (v *Verdict) observe(start time.Time) {
	if v.engine.config.Observe == nil {
		return
	}
	if !start.IsZero() {
		v.Took = max(time.Since(start), 1)
	}
	v.engine.config.Observe(v)
}

// match finds the rules that decide: the one with that id, or all that match.
func (v *Verdict) match(s rules.Subject, id string) error {
	set := v.engine.current.Load()
	if id == "" {
		// A client registered only for a moment is not missed: the counter of removed clients changes.
		gone, lasting := v.engine.gone.Load(), set.Lasting()
		v.matched = set.Match(s, v.matched)
		if lasting && set.Lasting() && gone == v.engine.gone.Load() {
			v.set = set
		}
		return nil
	}
	var ok bool
	if v.matched, ok = set.AppendRule(id, s, v.matched); !ok {
		return fmt.Errorf("%w: %s", ErrNoRule, rules.Quote(id))
	}
	return nil
}

// decide decides a request whose rules are known.
func (v *Verdict) decide(ctx context.Context, s rules.Subject, t *Terms, more bool) error {
	var stages uint32 // bit set of the stages of all rules
	shadows, smooth := false, !more
	simple := !more && !t.HasCost // so are all rules
	for i := range v.matched {
		m := &v.matched[i]
		switch {
		case m.Effect != match.Limited:
			if m.Effect.Denies() {
				if !shadow(m) {
					v.deny(m)
					return nil
				}
				smooth = false
			}
		case isSimple(m):
			stages |= 1 << v.engine.stage(m)
		case shadow(m):
			shadows, simple = true, false
		default:
			stages |= 1 << v.engine.stage(m)
			simple = false
		}
	}
	v.smooth = smooth && !shadows
	at := v.engine.stores.byMode[rules.ScopeRegion][rules.ByStore]
	if simple && stages != 0 && v.engine.stores.list[at].borrows {
		if stages&ownStages != 0 {
			v.addSimple(s, at, false)
		}
		if stages&^ownStages != 0 {
			v.addSimple(s, at, true)
		}
		v.binding = len(v.checks)
		v.repeats = v.set != nil && !v.settles
		return v.takeSimple(ctx, t, at)
	}
	a := checkBuilder{v: v, ctx: ctx, subject: s, cost: t.Cost, hasCost: t.HasCost, unheld: t.Unheld, more: more}
	only := stages&(stages-1) == 0
	for ; stages != 0; stages &= stages - 1 {
		stage := bits.TrailingZeros32(stages)
		for i := range v.matched {
			if m := &v.matched[i]; m.Effect == match.Limited && !shadow(m) && (only || v.engine.stage(m) == stage) {
				a.add(i)
			}
		}
	}
	v.binding = len(v.checks)
	if shadows {
		for i := range v.matched {
			if m := &v.matched[i]; m.Effect == match.Limited && shadow(m) {
				a.add(i)
			}
		}
	}
	if len(v.checks) == 0 {
		return nil
	}
	if a.copies {
		v.copyStrings()
	}
	return v.take(ctx, t)
}

// ownStages are the stages of keys that are not shared.
const ownStages = 0x55555555

// stage returns the order of a rule's limits: first those that need no server, then the client's own limits in the
// store, then shared ones.
func (e *Engine) stage(m *match.Result) int {
	at := e.stores.byMode[rules.ScopeRegion][rules.ByStore]
	if !isSimple(m) {
		at = e.stores.of(m.Rule)
	}
	stage := 2 * int(at)
	if m.Shared {
		stage++
	}
	return stage
}

// deny denies a request regardless of its counters.
func (v *Verdict) deny(m *match.Result) {
	v.Rule, v.Action, v.Status, v.RetryAfter = m.Rule, Reject, statusForbidden, headgate.Never
	if m.Rule.OnLimit.Action == rules.Drop {
		v.Action = Drop
	}
	switch m.Effect {
	case match.Unidentified:
		v.Reason = Unidentified
	case match.Ambiguous:
		v.Reason, v.Status = Unidentified, statusBadRequest
	case match.UnknownClient:
		v.Reason = Unregistered
	default:
		v.Reason = Blocked
	}
}

// Statuses that do not come from a rule.
const (
	statusBadRequest  = 400
	statusForbidden   = 403
	statusUnavailable = 503
)

// A checkBuilder turns rules into checks.
type checkBuilder struct {
	v       *Verdict
	ctx     context.Context
	subject rules.Subject
	cost    int64 // Terms.Cost, if hasCost
	hasCost bool
	unheld  bool
	more    bool // concurrency limits are skipped
	copies  bool // some checks are for stores that may keep their strings
}

// add adds the checks of a rule.
func (a *checkBuilder) add(matched int) {
	v, e := a.v, a.v.engine
	m := &v.matched[matched]
	r := m.Rule
	limits := len(m.Limits)
	if r.Penalty != nil && e.penalized(a.ctx, a.subject, v, m) {
		limits += len(r.Penalty.Limits)
	}
	at := e.stores.of(r)
	borrows := e.stores.list[at].borrows
	var owner span
	if !borrows {
		a.copies = true
		owner.from = int32(len(v.keys))
		v.keys = m.AppendOwner(v.keys, a.subject)
		owner.to = int32(len(v.keys))
	}
	cost := r.Cost.Reserve(a.subject)
	places := cost
	switch {
	case a.hasCost:
		if cost = a.cost; cost == 0 {
			places = 0
		}
	case r.Cost.ResponseHeader != "":
		v.settles, v.reads = true, true
	}
	full := false
	maxWait := r.OnLimit.MaxWait
	if maxWait > 0 && cost > 0 && !a.unheld && int(e.waiting.Load()) >= e.config.MaxWaiting {
		full, maxWait = true, 0
	}
	from := len(v.keys)
	v.keys = m.AppendKeyBase(v.keys, a.subject)
	base := len(v.keys) - from
	v.checks, v.infos = slices.Grow(v.checks, limits), slices.Grow(v.infos, limits)
	for j := range limits {
		l := &m.Limit(j).Limit
		units := cost
		if l.Algorithm == headgate.Concurrency {
			if a.more {
				continue
			}
			units = places
			v.settles = v.settles || places > 0
		}
		start := from
		if j > 0 {
			start = len(v.keys)
			v.keys = append(v.keys, v.keys[from:from+base]...)
		}
		v.keys = append(v.keys[:start+base], m.LimitName(j)...)
		n := len(v.checks)
		v.checks, v.infos = v.checks[:n+1], v.infos[:n+1]
		c := &v.checks[n] // field by field, which is faster than a copy
		c.Key = unsafe.String(unsafe.SliceData(v.keys[start:]), len(v.keys)-start)
		c.Limit, c.Cost = *l, units
		c.Owner, c.Split, c.Partition, c.OnFailure, c.Safe = "", r.Split, r.Partition, r.OnFailure, r.Safe
		with := &v.infos[n]
		*with = checkInfo{matched: int32(matched), limit: int32(j), store: at}
		if !borrows {
			with.key, with.owner = span{int32(start), int32(len(v.keys))}, owner
		}
		if r.OnLimit.Action == rules.Delay {
			c.Limit, with.extended = extend(*l, cost, maxWait)
			with.full, v.delays = full, true
		}
	}
}

// addSimple adds the checks of all rules whose keys are shared, or not. The rules have only keys and limits, and their
// store is a Borrower.
func (v *Verdict) addSimple(s rules.Subject, at int8, shared bool) {
	keys, checks, list := v.keys, v.checks, v.infos
	for i := range v.matched {
		m := &v.matched[i]
		if m.Effect != match.Limited || m.Shared != shared {
			continue
		}
		units, _ := m.Simple()
		from := len(keys)
		keys = m.AppendKeyBase(keys, s)
		base := len(keys)
		for j := range m.Limits {
			l := &m.Limits[j].Limit
			v.settles = v.settles || l.Algorithm == headgate.Concurrency
			start := from
			if j > 0 {
				start = len(keys)
				keys = append(keys, keys[from:base]...)
			}
			keys = append(keys, m.LimitName(j)...)
			n := len(checks)
			if n == cap(checks) || n == cap(list) {
				checks, list = slices.Grow(checks, 1), slices.Grow(list, 1)
			}
			checks, list = checks[:n+1], list[:n+1]
			c, with := &checks[n], &list[n]
			c.Key = unsafe.String(&keys[start], len(keys)-start)
			// Mostly the previous request had the same limit here. A client's own limit may replace another client's.
			if with.simple != l || c.Cost != units || m.Client != "" {
				c.Limit, c.Cost = *l, units
				c.Owner, c.Split, c.Partition, c.OnFailure, c.Safe = "", 0, headgate.PartitionFull, headgate.Open, nil
				*with = checkInfo{simple: l}
			}
			with.matched, with.limit, with.store = int32(i), int32(j), at
		}
	}
	v.keys, v.checks, v.infos = keys, checks, list
}

// lend copies the strings of checks for stores that may keep them. The other checks keep pointing into the buffer, or
// into a previous one.
func (v *Verdict) copyStrings() {
	whole := string(v.keys)
	for i := range v.checks {
		a, c := &v.infos[i], &v.checks[i]
		if !v.engine.stores.list[a.store].borrows {
			c.Key, c.Owner = whole[a.key.from:a.key.to], whole[a.owner.from:a.owner.to]
		}
	}
}

// take takes for all checks, and sets the verdict.
func (v *Verdict) take(ctx context.Context, t *Terms) error {
	n := len(v.checks)
	v.decisions = slices.Grow(v.decisions, n)[:n]
	shadows := v.takeShadows(ctx)
	passes, err := v.takeAll(ctx)
	if shadows != nil {
		shadows.Wait()
	}
	return v.taken(ctx, t, passes, err)
}

// takeSimple is take for checks of one store without shadow rules and delays. Mostly all of them allow, and nothing
// else is to be done.
func (v *Verdict) takeSimple(ctx context.Context, t *Terms, at int8) error {
	n := len(v.checks)
	if n == 0 || n > headgate.MaxChecks {
		return v.take(ctx, t)
	}
	v.decisions = slices.Grow(v.decisions, n)[:n]
	ds, err := v.engine.stores.list[at].TakeAll(ctx, v.checks, v.decisions[:0])
	if err == nil && len(ds) == n && &ds[0] == &v.decisions[0] && v.allAllow() {
		return nil
	}
	passes, err := v.answered(ctx, 0, n, ds, err)
	return v.taken(ctx, t, passes, err)
}

// allAllow sets the verdict if all checks were decided by their store and allow. Otherwise it returns false and changes
// nothing.
func (v *Verdict) allAllow() bool {
	tightest := &v.decisions[0]
	check := 0
	for i := range v.decisions {
		d := &v.decisions[i]
		if !d.Allowed || d.Degraded || d.Limit == 0 {
			return false
		}
		if d.Remaining < tightest.Remaining {
			tightest, check = d, i
		}
	}
	v.Rule, v.Decision, v.holds = v.rule(check), *tightest, true
	return true
}

// taken sets the verdict on a request after its checks: it is allowed, denied, or could not be decided.
func (v *Verdict) taken(ctx context.Context, t *Terms, passes bool, err error) error {
	n := len(v.checks)
	if v.binding < n {
		if !t.peeks() {
			v.rejected(ctx, v.binding, n)
		}
		if err != nil || !passes {
			v.release(ctx, v.binding, n) // a denied request holds no slot, not even of a shadow rule
		}
	}
	if err != nil {
		return v.undecided(err)
	}
	if !passes && !t.peeks() {
		v.rejected(ctx, 0, v.binding)
	}
	if v.delays {
		v.queue()
	}
	check, wait := v.conclude(passes)
	v.holds = passes
	if wait > 0 && !t.Unheld && !v.enter() {
		v.rejectFull(ctx, check)
	}
	return nil
}

// undecided denies a request that an overloaded store did not decide. It returns other errors.
func (v *Verdict) undecided(err error) error {
	if !errors.Is(err, headgate.ErrOverloaded) {
		return err
	}
	for i := range v.decisions[:v.binding] {
		v.decisions[i] = notAsked
	}
	v.Rule = v.rule(0)
	v.Action, v.Reason, v.Status, v.RetryAfter = Reject, Overloaded, statusUnavailable, overloadedFor
	v.settles, v.reads = false, false
	return nil
}

// overloadedFor is the RetryAfter of an overloaded store. It is a guess.
const overloadedFor = time.Second

// conclude sets the verdict after all checks. It returns the binding check, and how long it delays the request.
func (v *Verdict) conclude(passes bool) (check int, wait time.Duration) {
	check = -1
	for i := range v.decisions[:v.binding] {
		d := &v.decisions[i]
		if d.Limit == 0 {
			continue // it was not checked
		}
		v.Degraded = v.Degraded || d.Degraded
		if held := v.infos[i].wait; passes && held > wait {
			wait, check = held, i
		} else if check < 0 || wait == 0 && tighter(d, &v.decisions[check]) {
			check = i
		}
	}
	if check < 0 {
		return check, 0 // there are only shadow rules
	}
	v.Rule, v.Decision = v.rule(check), v.decisions[check]
	switch {
	case !passes:
		v.refuse(check)
	case wait > 0:
		v.Action, v.Delay = Delay, wait
	}
	return check, wait
}

// tighter reports whether a decision binds more than another: denied over allowed, then the longest RetryAfter, then
// the least Remaining.
func tighter(d, than *headgate.Decision) bool {
	switch {
	case d.Allowed != than.Allowed:
		return than.Allowed
	case !d.Allowed:
		return d.RetryAfter > than.RetryAfter
	default:
		return d.Remaining < than.Remaining
	}
}

// refuse denies because of a check.
func (v *Verdict) refuse(check int) {
	r, d := v.Rule, &v.Decision
	v.Action, v.Reason, v.Status, v.RetryAfter = Reject, OverLimit, r.Status, d.RetryAfter
	v.settles, v.reads = false, false
	switch {
	case d.Degraded && r.OnFailure == headgate.Closed && d.RetryAfter != headgate.Never:
		v.Reason, v.Status = StoreFailed, statusUnavailable
	case r.OnLimit.Action == rules.Drop:
		v.Action = Drop
	case v.infos[check].full && d.RetryAfter <= r.OnLimit.MaxWait:
		v.Reason = QueueFull // it would have been delayed if there were room
	}
}
