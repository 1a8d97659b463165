package engine

import (
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// An Action is what to do with a request.
type Action uint8

// The actions.
const (
	Allow  Action = iota // serve it
	Delay                // hold it with Wait, then serve it
	Reject               // respond with Status
	Drop                 // close the connection without a response
)

var actionNames = [...]string{Allow: "allow", Delay: "delay", Reject: "reject", Drop: "drop"}

func (a Action) String() string { return enumName(actionNames[:], uint8(a)) }

// Passes reports whether the request is to be served, at once or after a Wait.
func (a Action) Passes() bool { return a <= Delay }

// A Reason says why a request is denied.
type Reason uint8

// The reasons.
const (
	None         Reason = iota // it is not denied
	OverLimit                  // a limit was reached
	Blocked                    // a rule, an override or the registered client says block
	Unidentified               // it lacks an attribute of a rule's key (fallback: deny), or sends it several times
	Unregistered               // its client is not registered, and the rule says unregistered: deny
	QueueFull                  // it would have been delayed, but Config.MaxWaiting requests are being delayed
	StoreFailed                // the store was unreachable, and the rule says on_failure: closed
	Overloaded                 // more requests came at once than could be decided in time
)

var reasonNames = [...]string{
	None: "none", OverLimit: "over limit", Blocked: "blocked", Unidentified: "unidentified",
	Unregistered: "unregistered", QueueFull: "queue full", StoreFailed: "store failed",
	Overloaded: "overloaded",
}

func (r Reason) String() string { return enumName(reasonNames[:], uint8(r)) }

func enumName(words []string, n uint8) string {
	if int(n) < len(words) {
		return words[n]
	}
	return "unknown " + strconv.Itoa(int(n))
}

// A Verdict is the decision on a request, and records which units were taken for it. The zero Verdict is ready for use.
// Reuse a Verdict for the next request, but only in one goroutine at a time; Decide resets it.
//
// If Action is Delay, the caller must call Wait before it serves the request. If Action.Passes, the caller must end the
// request with Settle or Cancel; it may skip Settle if NeedsSettle returns false. After a denial neither call is
// needed.
type Verdict struct {
	// Action is what to do with the request.
	Action Action
	// Reason is why the request is denied.
	Reason Reason
	// Degraded reports whether a store was unreachable and a policy decided.
	Degraded bool
	// Rule is the rule that determines the verdict: the rule that denies or delays, otherwise the rule with the tightest
	// limit. It is nil if no limit was checked. It points into the rule set, so it can be compared by address.
	Rule *rules.Rule
	// Status is the HTTP status of a denial: the rule's 429 or 503 if the request is over a limit; 503 if the store
	// failed; 403 for a client that is blocked, unidentified or unregistered; and 400 for a request with contradictory
	// identities. It is not 401, because such a response must name an authentication scheme. It is 0 if the request
	// passes.
	Status int
	// Decision is the tightest decision, as [headgate.Tightest] defines it. Shadow rules are ignored.
	Decision headgate.Decision
	// RetryAfter is the time after which a denied request may succeed, or headgate.Never.
	RetryAfter time.Duration
	// Delay is how long Wait delays the request.
	Delay time.Duration
	// Duration is how long the decision took, or 0 if it was not measured. If Config.Observe is set, about one decision in
	// 32 is measured.
	Duration time.Duration

	state   // used until the request ends
	scratch // intermediate results, for the decision and its reports
}

// rule returns the rule of a check.
func (v *Verdict) rule(check int) *rules.Rule { return v.matched[v.infos[check].matched].Rule }

// store returns the store of a check.
func (v *Verdict) store(check int) *store { return &v.engine.stores.list[v.infos[check].store] }

// limit returns the limit of the check that info describes.
func (v *Verdict) limit(info *checkInfo) *rules.Limit {
	return v.matched[info.matched].Limit(int(info.limit))
}

// NeedsSettle reports whether the cost is in the response, or slots must be released. Otherwise the caller may skip
// Settle.
func (v *Verdict) NeedsSettle() bool { return v.needsSettle }

// ReadsResponse reports whether Settle reads a header of the response.
func (v *Verdict) ReadsResponse() bool { return v.readsResponse }

// An Applied is a limit that applies to a request, with its decision.
type Applied struct {
	// Rule is the limit's rule.
	Rule *rules.Rule
	// Name identifies the limit in its rule. The name of a penalty's limit begins with '~'.
	Name string
	// Limit is the limit itself.
	Limit headgate.Limit
	// Decision is the decision of the limit. If Decision.Limit is 0, the limit was not checked because an earlier one
	// denied.
	Decision headgate.Decision
	// Shadow reports whether the rule has on_limit: shadow.
	Shadow bool
}

// Limits returns the limits that apply to the request. Those of one rule are adjacent, and those of shadow rules come
// last. It is valid until the verdict is reused, and read-only.
func (v *Verdict) Limits() []Applied {
	if len(v.applied) == len(v.checks) { // an earlier call has set v.applied
		return v.applied
	}
	v.applied = v.applied[:0]
	for i := range v.checks {
		info := &v.infos[i]
		m := &v.matched[info.matched]
		v.applied = append(v.applied, Applied{
			Rule:     m.Rule,
			Name:     m.LimitName(int(info.limit)),
			Limit:    v.limit(info).Limit,
			Decision: v.decisions[i],
			Shadow:   i >= v.enforcedCount,
		})
	}
	return v.applied
}

// LimitCount returns the number of limits that apply to the request: the length of Limits.
func (v *Verdict) LimitCount() int { return len(v.checks) }

// LimitAt returns the i-th limit that applies to the request, without the copies that Limits makes.
func (v *Verdict) LimitAt(i int) LimitView {
	info := &v.infos[i]
	return LimitView{
		Matched: &v.matched[info.matched], Limit: int(info.limit), Decision: &v.decisions[i], Shadow: i >= v.enforcedCount,
	}
}

// A LimitView is a limit that applies to a request. It is valid until the verdict is reused, and read-only.
type LimitView struct {
	// Matched is the limit's rule.
	Matched *match.Result
	// Limit is the limit's index: Matched.Limit(Limit) returns the limit.
	Limit int
	// Decision and Shadow are those of Applied.
	Decision *headgate.Decision
	Shadow   bool
}

// PlainAllow reports whether every rule that matched and decided allows the request: none denies, delays, is a shadow
// rule or was not checked, and no policy decided in place of a store. Such requests can be counted by rule with Matched,
// which is faster than Outcomes. Rules with the effect Skipped or Exempted did not decide.
func (v *Verdict) PlainAllow() bool { return v.plainAllow && v.Action == Allow && !v.Degraded }

// Matched returns the rules that matched, in their order. It is valid until the verdict is reused, and read-only.
func (v *Verdict) Matched() []match.Result { return v.matched }

// An Outcome is the result of one rule that matched.
type Outcome struct {
	// Rule is the rule. It points into the rule set, so it can be compared by address.
	Rule *rules.Rule
	// Effect is the rule's effect on the request.
	Effect match.Effect
	// Mode is the consistency of the rule's limits: the rule's own or, if that is ByStore, the default of the store.
	Mode rules.Consistency
	// Shadow reports whether the rule has on_limit: shadow.
	Shadow bool
	// Checked reports whether the rule's limits were checked. They are not if an earlier rule denied.
	Checked bool
	// Denied reports whether the rule denies or, as a shadow rule, would have denied.
	Denied bool
	// Degraded reports whether the store was unreachable and Rule.OnFailure decided. The Remaining of the limits is then
	// not what remains in the store.
	Degraded bool
	// Penalized reports whether the limits of the rule's penalty apply.
	Penalized bool
	// Limits are the elements of Verdict.Limits that belong to the rule.
	Limits []Applied
}

// Outcomes returns the results of all rules that matched, in their order. It is valid until the verdict is reused, and
// read-only.
func (v *Verdict) Outcomes() []Outcome {
	if len(v.outcomes) == len(v.matched) { // an earlier call has set v.outcomes
		return v.outcomes
	}
	applied := v.Limits()
	v.outcomes = v.outcomes[:0]
	for i := range v.matched {
		m := &v.matched[i]
		v.outcomes = append(v.outcomes, Outcome{
			Rule: m.Rule, Effect: m.Effect, Mode: v.engine.mode(m.Rule), Shadow: isShadow(m),
			Denied: m.Effect.Denies(),
		})
	}
	for from, to := 0, 0; from < len(v.checks); from = to {
		to = v.ruleEnd(from)
		o := &v.outcomes[v.infos[from].matched]
		o.Limits = applied[from:to:to]
		// The indexes of the penalty's limits follow those of the rule's limits.
		o.Penalized = int(v.infos[to-1].limit) >= len(v.matched[v.infos[from].matched].Limits)
		for j := from; j < to; j++ {
			d := &v.decisions[j]
			o.Checked = o.Checked || d.Limit != 0
			o.Denied = o.Denied || !d.Allowed
			o.Degraded = o.Degraded || d.Degraded
		}
	}
	return v.outcomes
}

// ruleEnd returns the index after the last check of the rule whose checks begin at from.
func (v *Verdict) ruleEnd(from int) int {
	to := from + 1
	for to < len(v.infos) && v.infos[to].matched == v.infos[from].matched {
		to++
	}
	return to
}
