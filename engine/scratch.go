package engine

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/match"
)

// scratch holds the intermediate results of a decision. Its slices are reused by the next decision.
type scratch struct {
	matched       []match.Result
	checks        []headgate.Check
	infos         []checkInfo         // infos[i] describes checks[i]
	decisions     []headgate.Decision // decisions[i] is the decision of checks[i]
	enforcedCount int                 // number of checks that can deny; the checks of shadow rules follow
	keys          []byte              // keys and owners of the checks, one after another
	applied       []Applied           // see Verdict.Limits
	outcomes      []Outcome           // see Verdict.Outcomes
}

// state is the state of a request from its decision to its end.
type state struct {
	engine        *Engine
	holdsUnits    bool // units or slots were taken, and neither Settle nor Cancel was called
	isDelayed     bool // the request counts towards Engine.Waiting
	needsSettle   bool // see Verdict.NeedsSettle
	readsResponse bool // see Verdict.ReadsResponse
	mayDelay      bool // a rule may delay the request
	plainAllow    bool // no matching rule denies, delays, is not checked or is a shadow rule: see Verdict.PlainAllow
	renewing      bool // KeepSlots renews slots
	slotKeeper    *slotKeeper
}

// A checkInfo describes a check.
type checkInfo struct {
	matched       int32         // index in Verdict.matched
	limit         int32         // index for Result.Limit of that rule
	base          int32         // length of the key without the name of the limit
	store         int8          // index in stores.list of the store that decided the check and counts its units
	key           span          // of Check.Key, if the store is not a Borrower
	owner         span          // of Check.Owner, if the store is not a Borrower
	wait          time.Duration // how long the check delays the request
	extraCapacity int64         // number of units by which the limit's capacity was extended: see extend
	queueFull     bool          // the limit was not extended, because too many requests are being delayed

	simple *headgate.Limit // set by addSimple: the limit of the check
}

// A span is a part of Verdict.keys.
type span struct{ from, to int32 }

// reset clears the verdict for the next request, which e decides.
func (v *Verdict) reset(e *Engine) {
	if v.isDelayed {
		v.stopWaiting()
	}
	v.stopRenewal()
	v.Action, v.Reason, v.Degraded, v.Rule, v.Status = Allow, None, false, nil, 0
	v.Decision, v.RetryAfter, v.Delay, v.Duration = headgate.Decision{}, 0, 0, 0
	v.engine = e
	v.matched, v.checks, v.infos, v.keys = v.matched[:0], v.checks[:0], v.infos[:0], v.keys[:0]
	v.decisions, v.applied, v.outcomes = v.decisions[:0], v.applied[:0], v.outcomes[:0]
	v.enforcedCount = 0
	v.holdsUnits, v.needsSettle, v.readsResponse, v.mayDelay, v.plainAllow = false, false, false, false, false
}
