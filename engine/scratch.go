package engine

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/match"
)

// scratch holds what a decision computes with. Its slices are reused by the next decision.
type scratch struct {
	matched   []match.Result
	checks    []headgate.Check
	infos     []checkInfo         // by check
	decisions []headgate.Decision // by check
	binding   int                 // number of checks that bind; those of shadow rules follow
	keys      []byte              // texts of the checks
	applied   []Applied           // see Verdict.Limits
	outcomes  []Outcome           // see Verdict.Outcomes
}

// state is what the engine remembers about a request from its decision to its end.
type state struct {
	engine     *Engine
	holds      bool // something was taken, and neither settled nor cancelled
	waits      bool // it counts towards Engine.Waiting
	settles    bool // see Verdict.Settles
	reads      bool // see Verdict.ReadsResponse
	delays     bool // a rule may delay it
	smooth     bool // see Verdict.Smooth, which requires more
	renewing   bool // KeepSlots renews slots
	slotKeeper *slotKeeper
}

// checkInfo describes a check.
type checkInfo struct {
	matched  int32         // index in Verdict.matched
	limit    int32         // index of the limit
	store    int8          // where it was decided, and where its units are
	key      span          // in keys
	owner    span          // in keys
	wait     time.Duration // how long it delays the request
	extended int64         // number of units by which the limit was extended for delayed requests
	full     bool          // it was not extended, because too many requests are delayed

	simple *headgate.Limit // the limit of the check, if nothing else about it was set
}

// A span is a part of Verdict.keys.
type span struct{ from, to int32 }

// reset clears the verdict.
func (v *Verdict) reset(e *Engine) {
	if v.waits {
		v.stopWaiting()
	}
	v.stopKeeping()
	v.Action, v.Reason, v.Degraded, v.Rule, v.Status = Allow, None, false, nil, 0
	v.Decision, v.RetryAfter, v.Delay, v.Took = headgate.Decision{}, 0, 0, 0
	v.engine = e
	v.matched, v.checks, v.infos, v.keys = v.matched[:0], v.checks[:0], v.infos[:0], v.keys[:0]
	v.decisions, v.applied, v.outcomes = v.decisions[:0], v.applied[:0], v.outcomes[:0]
	v.binding, v.holds, v.settles, v.reads, v.delays, v.smooth = 0, false, false, false, false, false
}
