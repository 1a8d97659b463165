package rules

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// validateAllLimits adds the problems of the limits of a rule, of its overrides and of its penalty to p.
func (r *Rule) validateAllLimits(at *location, p *problems) {
	validateExclusive(r.Limits, r.Unlimited, r.Block, true, at, p)
	if r.Unlimited || r.Block {
		r.validateUncounted(at, p)
		return
	}
	required := newRequirement(r)
	required.validate(r.Limits, at.field("limits"), p)
	r.validateDelay(at.field("on_limit"), p)
	r.validateSafe(required, at.field("safe"), p)
	if r.Penalty != nil {
		r.validatePenalty(&required, at.field("penalty"), p)
	}
	if len(r.Overrides) > MaxOverrides {
		p.add(at.field("overrides"), strconv.Itoa(len(r.Overrides)),
			"at most "+strconv.Itoa(MaxOverrides)+"; register clients instead")
		return
	}
	for i := range r.Overrides {
		o := &r.Overrides[i]
		here := at.field("overrides").element(i)
		if o.When.empty() {
			p.add(here.field("when"), "", "the clients that it is for; for all clients, change the rule's limits")
		}
		new(conditionValidator).condition(&o.When, here.field("when"), p)
		validateExclusive(o.Limits, o.Unlimited, o.Block, true, here, p)
		required.validate(o.Limits, here.field("limits"), p)
	}
}

// validateUncounted refuses fields that have no effect in a rule that counts nothing, because it blocks or exempts.
func (r *Rule) validateUncounted(at *location, p *problems) {
	const want = "none: nothing is counted under a rule that blocks or exempts; narrow its when instead"
	for _, f := range []struct {
		name  string
		isSet bool
	}{
		{"key", len(r.Key) > 0},
		{"owner", r.Owner != OwnerByKey},
		{"fallback", r.Fallback != FallbackIP},
		{"cost", r.Cost != Cost{}},
		{"count_rejected", r.CountRejected},
		{"consistency", r.Consistency != ByStore},
		{"scope", r.Scope != ScopeRegion},
		{"partition", r.Partition != headgate.PartitionFull},
		{"split", r.Split != 0},
		{"on_failure", r.OnFailure != headgate.Open},
		{"safe", r.Safe != nil},
		{"overrides", len(r.Overrides) > 0},
		{"unregistered", r.Unregistered != UnregisteredDefault},
		{"penalty", r.Penalty != nil},
	} {
		if f.isSet {
			p.add(at.field(f.name), "", want)
		}
	}
	switch {
	case r.Block && r.OnLimit.Action == Delay:
		p.add(at.field("on_limit"), r.OnLimit.String(), "reject, drop or shadow: blocked requests are never admitted later")
	case r.Unlimited && r.OnLimit.Action != Reject:
		p.add(at.field("on_limit"), r.OnLimit.String(), "none: nothing is denied under a rule that exempts")
	}
	switch {
	case r.Status == 0:
	case r.Block:
		p.add(at.field("status"), strconv.Itoa(r.Status),
			"none: it is for requests over a limit; blocked requests get status 403")
	default:
		p.add(at.field("status"), strconv.Itoa(r.Status), "none: nothing is denied under a rule that exempts")
	}
}

// validateDelay refuses a longest delay in which no limit restores a unit, because no request would ever be delayed.
func (r *Rule) validateDelay(at *location, p *problems) {
	if r.OnLimit.Action != Delay || r.OnLimit.MaxWait <= 0 {
		return
	}
	var fastest *Limit
	for i := range r.Limits {
		l := &r.Limits[i]
		if l.Validate() != nil || !canDelay(l.Algorithm) {
			return // requirement.validate reports this
		}
		if fastest == nil || l.interval() < fastest.interval() {
			fastest = l
		}
	}
	if fastest == nil || fastest.interval() <= r.OnLimit.MaxWait {
		return
	}
	want := "reject: a unit of " + fastest.String() + " is restored every " + FormatDuration(fastest.interval()) +
		", and no request is delayed for longer than " + FormatDuration(MaxDelay)
	if fastest.interval() <= MaxDelay {
		want = "a delay of at least " + FormatDuration(fastest.interval()) +
			", in which one unit of " + fastest.String() + " is restored"
	}
	p.add(at, Quote(r.OnLimit.String()), want)
}

// interval returns the time in which one unit is restored, in whole microseconds, rounded up.
func (l *Limit) interval() time.Duration {
	return time.Duration((l.Period.Microseconds()+l.Count-1)/l.Count) * time.Microsecond
}

// validateSafe adds the problems of Rule.Safe to p. The safe limit is counted in the memory of one node, without parts
// and queues, so the rule's consistency, split and delay do not restrict it.
func (r *Rule) validateSafe(required requirement, at *location, p *problems) {
	if r.Safe == nil || r.Safe.Validate() != nil {
		return
	}
	required.mode, required.split, required.maxWait, required.safe = Local, 0, 0, safeNone
	if value, want := required.conflict(&Limit{Limit: *r.Safe}); want != "" {
		p.add(at, value, want)
	}
}

// validateExclusive refuses more than one of limits, unlimited and block. If required is set, it also refuses none.
func validateExclusive(limits []Limit, unlimited, block, required bool, at *location, p *problems) {
	var settings []string
	if len(limits) > 0 {
		settings = append(settings, "limits")
	}
	if unlimited {
		settings = append(settings, "unlimited")
	}
	if block {
		settings = append(settings, "block")
	}
	switch {
	case len(settings) > 1:
		p.add(at, strings.Join(settings, " and "), "one of them")
	case len(settings) == 0 && required:
		p.add(at, "", "limits, or unlimited: true, or block: true")
	}
	if len(limits) > MaxLimits {
		p.add(at.field("limits"), strconv.Itoa(len(limits)), "at most "+strconv.Itoa(MaxLimits))
	}
}

// validateLimits adds the problems of limits to p that do not depend on the rule.
func validateLimits(limits []Limit, at *location, p *problems) {
	for i := range limits {
		l := &limits[i]
		here := at.element(i)
		if err := l.Validate(); err != nil {
			value, want := Explain(err)
			p.add(here, value, want)
		}
		if l.Name == "" {
			continue
		}
		if !isName(l.Name, "-_.") || !isLetter(l.Name[0]) || len(l.Name) > MaxLimitName {
			p.add(here.field("name"), Quote(l.Name),
				"a letter, then letters, digits, '-', '_' and '.', at most "+strconv.Itoa(MaxLimitName)+" bytes")
		}
		if slices.ContainsFunc(limits[:i], func(o Limit) bool { return o.Name == l.Name }) {
			p.add(here.field("name"), Quote(l.Name), "a name that no other limit in this list has")
		}
	}
}

func (r *Rule) validatePenalty(required *requirement, at *location, p *problems) {
	penalty := r.Penalty
	if len(r.Key) == 0 {
		p.add(at, "", "a key: without one, all clients would be penalized for the denials of one")
	}
	if penalty.After.Count < 1 || penalty.After.Count > headgate.MaxCount {
		p.add(at.field("after"), strconv.FormatInt(penalty.After.Count, 10), `at least one denial, as in "100 denials in 1m"`)
	}
	if headgate.Per(1, penalty.After.Within).Validate() != nil {
		p.add(at.field("after"), penalty.After.Within.String(),
			`a time of whole microseconds and at most 366 days, as in "100 denials in 1m"`)
	}
	if headgate.Per(1, penalty.For).Validate() != nil {
		p.add(at.field("for"), penalty.For.String(), "a duration such as 10m, of whole microseconds and at most 366 days")
	}
	if len(penalty.Limits) == 0 {
		p.add(at.field("limits"), "", "the limits that apply during the penalty, besides the rule's")
	}
	if len(penalty.Limits) > MaxLimits {
		p.add(at.field("limits"), strconv.Itoa(len(penalty.Limits)), "at most "+strconv.Itoa(MaxLimits))
	}
	required.validate(penalty.Limits, at.field("limits"), p)
}
