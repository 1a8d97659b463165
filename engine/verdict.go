package engine

import (
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// An Action is what to do with a request.
type Action uint8

// The actions.
const (
	Allow  Action = iota // serve it
	Delay                // hold it with Wait, then serve it
	Reject               // answer with Status
	Drop                 // close the connection without an answer
)

var actionWords = [...]string{Allow: "allow", Delay: "delay", Reject: "reject", Drop: "drop"}

func (a Action) String() string { return word(actionWords[:], uint8(a)) }

// Passes tells whether the request is to be served, at once or after a Wait.
func (a Action) Passes() bool { return a <= Delay }

// A Reason says why a request is denied.
type Reason uint8

// The reasons.
const (
	None         Reason = iota // it is not denied
	OverLimit                  // a limit was reached
	Blocked                    // a rule, an override or the client's entry says block
	Unidentified               // it lacks an attribute of a rule's key, and the rule says fallback: deny; or it has several of it
	Unregistered               // its client is not registered, and the rule says unregistered: deny
	QueueFull                  // it would have been held, but Config.MaxWaiting others are
	StoreFailed                // the store could not be asked, and the rule says on_failure: closed
	Overloaded                 // more requests came at once than could be decided in time
)

var reasonWords = [...]string{
	None: "none", OverLimit: "over limit", Blocked: "blocked", Unidentified: "unidentified",
	Unregistered: "unregistered", QueueFull: "queue full", StoreFailed: "store failed",
	Overloaded: "overloaded",
}

func (r Reason) String() string { return word(reasonWords[:], uint8(r)) }

func word(words []string, n uint8) string {
	if int(n) < len(words) {
		return words[n]
	}
	return "unknown " + strconv.Itoa(int(n))
}

// A Verdict is what was decided about a request, and what was taken for it. The zero Verdict is ready for use. It is meant
// to be used again and again, by one goroutine at a time: Decide forgets what was there before.
//
// Whoever gets a verdict that passes says how the request ended, with Settle or Cancel, and calls Wait before it is served
// if the Action is Delay. A verdict that denies holds nothing, and neither does anything for it.
type Verdict struct {
	// Action is what to do.
	Action Action
	// Reason is why it is denied.
	Reason Reason
	// Degraded tells that a store could not be asked and a policy decided.
	Degraded bool
	// Rule is the rule that binds: the one that denies or delays, else the one whose limit is tightest. Nil if no limit was
	// asked. It is the Set's own, so that it can be told by its address.
	Rule *rules.Rule
	// Status is the HTTP status of a denial: the rule's for its limits (429 or 503), 503 if the store failed, and 403 for
	// who is blocked, unidentified or unregistered; 400 for who says in two ways who is asking. (401 would have to name a scheme by which to authenticate, which rules
	// do not know.) 0 if it passes.
	Status int
	// Decision is the tightest of all that were asked, as [headgate.Tightest] has it. Shadow rules have no part in it.
	Decision headgate.Decision
	// RetryAfter is when to come back, for a denial: headgate.Never if that is of no use.
	RetryAfter time.Duration
	// Delay is for how long to hold the request, which is what Wait does.
	Delay time.Duration
	// Took is how long the decision took, if it was measured: about one in 32 is, when there is a Config.Observe. Else 0.
	Took time.Duration

	engine    *Engine
	matched   []rules.Matched
	checks    []headgate.Check
	asked     []asked             // what goes with each check
	decisions []headgate.Decision // of each check
	binding   int                 // the first so many checks are those with a say, behind them are those of shadow rules
	keys      []byte
	applied   []Applied
	outcomes  []Outcome
	holds     bool // something was taken, and neither settled nor cancelled
	waits     bool // it counts as one of Engine.Waiting
	settles   bool
	reads     bool
	delays    bool // some rule may hold it
	smooth    bool // see Smooth, which asks for more
	keeps     bool // KeepSlots renews slots
	keeper    *keeper

	set     *rules.Set // by which it was matched, if the same request would be matched in the same way again; else nil
	repeats bool       // and nothing but its checks decides it: see DecideAgain
}

// asked is what goes with a check.
type asked struct {
	matched  int32         // whose it is
	limit    int32         // which of its limits
	store    int8          // where it was asked, and where its units are
	key      span          // in keys
	owner    span          // in keys
	wait     time.Duration // how long the request is held for it
	extended int64         // by how many units the limit was extended, so that requests can wait for them
	full     bool          // it was not, because too many wait already

	simple *headgate.Limit // whose terms the check has, if nothing else about it was set
}

// A span is a part of Verdict.keys.
type span struct{ from, to int32 }

// reset forgets everything.
func (v *Verdict) reset(e *Engine) {
	if v.waits {
		v.leave()
	}
	v.stopKeeping()
	v.Action, v.Reason, v.Degraded, v.Rule, v.Status = Allow, None, false, nil, 0
	v.Decision, v.RetryAfter, v.Delay, v.Took = headgate.Decision{}, 0, 0, 0
	v.engine = e
	v.matched, v.checks, v.asked, v.keys = v.matched[:0], v.checks[:0], v.asked[:0], v.keys[:0]
	v.decisions, v.applied, v.outcomes = v.decisions[:0], v.applied[:0], v.outcomes[:0]
	v.binding, v.holds, v.settles, v.reads, v.delays, v.smooth = 0, false, false, false, false, false
	v.set, v.repeats = nil, false
}

// rule returns whose check it is.
func (v *Verdict) rule(check int) *rules.Rule { return v.matched[v.asked[check].matched].Rule }

// limit returns whose terms a check has.
func (v *Verdict) limit(a *asked) *rules.Limit { return v.matched[a.matched].Limit(int(a.limit)) }

// Settles tells whether Settle has anything to do besides forgetting: a cost that the response says, or a place to release.
// If not, it need not be called.
func (v *Verdict) Settles() bool { return v.settles }

// ReadsResponse tells whether Settle will ask for a header of the response.
func (v *Verdict) ReadsResponse() bool { return v.reads }

// Applied is a limit that a request came under.
type Applied struct {
	// Rule is whose limit it is.
	Rule *rules.Rule
	// Name tells the limits of the rule apart. That of a penalty's limit begins with '~'.
	Name string
	// Limit is how much may pass.
	Limit headgate.Limit
	// Decision is what came of it. If its Limit is 0 it was not asked, because an earlier one denied.
	Decision headgate.Decision
	// Shadow tells that it has no say: the rule is on_limit: shadow.
	Shadow bool
}

// Limits returns the limits that the request came under. Those of one rule stand next to each other, and those of shadow
// rules come last. It is valid until the verdict is used again, and read only.
func (v *Verdict) Limits() []Applied {
	if len(v.applied) == len(v.checks) {
		return v.applied
	}
	v.applied = v.applied[:0]
	for i := range v.checks {
		a := &v.asked[i]
		m := &v.matched[a.matched]
		v.applied = append(v.applied, Applied{
			Rule:     m.Rule,
			Name:     m.LimitName(int(a.limit)),
			Limit:    v.limit(a).Limit,
			Decision: v.decisions[i],
			Shadow:   i >= v.binding,
		})
	}
	return v.applied
}

// Asked is how many limits the request came under: as many as Limits returns.
func (v *Verdict) Asked() int { return len(v.checks) }

// At returns the i-th of them where it stands, without the copies that Limits makes: for who looks at every request's.
func (v *Verdict) At(i int) Asked {
	a := &v.asked[i]
	return Asked{Matched: &v.matched[a.matched], Limit: int(a.limit), Decision: &v.decisions[i], Shadow: i >= v.binding}
}

// Asked is a limit that a request came under. It is valid until the verdict is used again, and read only.
type Asked struct {
	// Matched is the rule that has it.
	Matched *rules.Matched
	// Limit is its number, as Matched.Limit takes it.
	Limit int
	// Decision and Shadow are those of Applied.
	Decision *headgate.Decision
	Shadow   bool
}

// Smooth tells that every rule that matched lets the request pass: none denies, holds it or only looks on, none was left
// unasked, and no policy decided in the place of a store. Most requests are like that, and Matched says all there is to count.
func (v *Verdict) Smooth() bool { return v.smooth && v.Action == Allow && !v.Degraded }

// Matched returns the rules that matched, in their order. It is valid until the verdict is used again, and read only.
func (v *Verdict) Matched() []rules.Matched { return v.matched }

// An Outcome is what one rule that matched said of a request.
type Outcome struct {
	// Rule is the rule. It is the Set's own, so that it can be told by its address.
	Rule *rules.Rule
	// Effect is what the rule does to such requests.
	Effect rules.Effect
	// Mode is how its limits are counted; never ByStore.
	Mode rules.Consistency
	// Shadow tells that it has no say: the rule is on_limit: shadow.
	Shadow bool
	// Asked tells that its limits were asked. They are not if another rule denied before.
	Asked bool
	// Denied tells that it denies or, in the shadow, would have.
	Denied bool
	// Degraded tells that the store could not be asked and Rule.OnFailure decided. What remains is not known then.
	Degraded bool
	// Penalized tells that the limits of the rule's penalty apply too.
	Penalized bool
	// Limits are those of Verdict.Limits that are the rule's.
	Limits []Applied
}

// Outcomes returns what every rule that matched said, in the order of the rules. It is valid until the verdict is used
// again, and read only.
func (v *Verdict) Outcomes() []Outcome {
	if len(v.outcomes) == len(v.matched) {
		return v.outcomes
	}
	applied := v.Limits()
	v.outcomes = v.outcomes[:0]
	for i := range v.matched {
		m := &v.matched[i]
		v.outcomes = append(v.outcomes, Outcome{
			Rule: m.Rule, Effect: m.Effect, Mode: v.engine.mode(m.Rule), Shadow: shadow(m),
			Denied: m.Effect.Denies(),
		})
	}
	for from, to := 0, 0; from < len(v.checks); from = to {
		to = v.ruleEnd(from)
		o := &v.outcomes[v.asked[from].matched]
		o.Limits = applied[from:to:to]
		o.Penalized = int(v.asked[to-1].limit) >= len(v.matched[v.asked[from].matched].Limits)
		for j := from; j < to; j++ {
			d := &v.decisions[j]
			o.Asked = o.Asked || d.Limit != 0
			o.Denied = o.Denied || !d.Allowed
			o.Degraded = o.Degraded || d.Degraded
		}
	}
	return v.outcomes
}

// ruleEnd returns where the checks of a rule end that begin at from.
func (v *Verdict) ruleEnd(from int) int {
	to := from + 1
	for to < len(v.asked) && v.asked[to].matched == v.asked[from].matched {
		to++
	}
	return to
}
