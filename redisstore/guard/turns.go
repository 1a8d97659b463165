package guard

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

// A request needs a turn for each of its keys before it calls the store. A turn is the permission to call the store for
// a key, which admission.KeyGate gives. A request without a turn waits for another caller that has one. If the response
// to that caller shows that the request would be denied, too, the request is denied without a call. Otherwise the
// request asks for a turn again when that caller's turn ends.

// A pendingCheck is a check that is about to be sent to the store.
type pendingCheck struct {
	check      *headgate.Check
	hash       uint64
	generation uint32         // of the deny cache when the store was called
	turn       admission.Turn // for the key of the check
}

// A turnWait is the state of a request that waits for its turns. The time that it waits counts towards
// Options.Deadline.
type turnWait struct {
	since         time.Time     // when the request began to wait, plus the time that does not count; zero before the wait
	responded     bool          // during the wait, another caller of its keys got a response
	failed        bool          // another caller of its keys got no response
	untilDeadline bool          // it waits until its deadline and does not call the store, because others got no response
	callsNow      bool          // it calls the store without waiting for others
	paused        bool          // it has waited until an earlier denial had certainly expired
	wakes         int           // number of times it was woken
	stalled       time.Duration // deadline.Tracker.Stalled when since was last set or moved
	extended      time.Duration // how far since was moved because this process is busy
	wasStopped    bool          // since was moved because this process was stopped, which is done only once
}

// maxWakes is the number of times that a request is woken before it calls the store without its turns. Without this
// limit, two requests with the same two keys could wake each other until their deadline: each gets the turn that the
// other releases.
const maxWakes = 8

// turnResult is the result of awaitTurns. The zero turnResult means Admitted without a wait.
type turnResult struct {
	outcome  admission.Outcome
	since    time.Time // when the request began to wait, or zero
	denied   int       // the index of the denied check, if the outcome is Denied
	decision headgate.Decision
}

// awaitTurns waits until all checks have their turns. The checks belong to one shard, whose queue has admitted the
// request. While the request waits for a turn, it holds no other turns, so that two requests never wait for each other,
// and the shard's queue does not count it as admitted.
func (g *Guard) awaitTurns(ctx context.Context, s *shard, checks []pendingCheck) turnResult {
	if g.denials == nil {
		return turnResult{}
	}
	w := turnWait{callsNow: g.reservedTime(s) >= g.options.Deadline}
	defer g.endWait(&w)
	for i := 0; i < len(checks); {
		p := &checks[i]
		if p.check.Cost == 0 || p.turn.Held() {
			i++
			continue
		}
		var waiter *admission.Waiter
		pause := g.uncertainty(p, &w)
		if pause == 0 {
			if waiter = g.askForTurn(p, &w); waiter == nil {
				i++
				continue
			}
		}
		g.releaseTurns(checks)
		wake, outcome := g.waitForTurn(ctx, s, p, pause, waiter, &w)
		if outcome != admission.Admitted {
			g.releaseTurns(checks)
			return turnResult{outcome: outcome, since: w.since}
		}
		if denied, d, ok := g.learnedDenial(checks, i, wake); ok {
			g.releaseTurns(checks)
			return turnResult{outcome: admission.Denied, since: w.since, denied: denied, decision: d}
		}
		i = 0 // all other turns were released, so ask for them again
	}
	// The store is not called if too little time is left to get a response.
	if g.tooLate(s, &w) && !g.extendWait(s, &w) {
		g.releaseTurns(checks)
		return turnResult{outcome: g.outOfTime(s), since: w.since}
	}
	return turnResult{since: w.since}
}

// askForTurn asks for the turn of a check. It returns a waiter if the request must wait. Without a waiter, the check
// has its turn, or it needs none because the gate has no room for its key.
func (g *Guard) askForTurn(p *pendingCheck, w *turnWait) *admission.Waiter {
	turn, waiter := g.gate.Enter(p.hash, p.check, g.micros(), w.callsNow)
	if waiter != nil {
		return waiter
	}
	// Count the request if it does not wait although it should: it calls the store without a turn, or asks for more units
	// than could pass.
	if !turn.Held() || w.callsNow && turn.Extra() {
		g.counters.waitsSkipped.Add(1)
	}
	p.turn = turn
	return nil
}

// waitForTurn waits for the given pause or, if there is a waiter, until it is woken. It returns Admitted if the request
// may ask for turns again. The queue of the shard does not count the request as active while it waits.
func (g *Guard) waitForTurn(
	ctx context.Context, s *shard, p *pendingCheck, pause time.Duration, waiter *admission.Waiter, w *turnWait,
) (wake admission.Wake, outcome admission.Outcome) {
	g.startWait(w)
	s.queue.Leave()
	defer s.queue.Resume()
	if waiter == nil {
		outcome, w.paused = g.pause(ctx, s, pause), true
	} else {
		wake, outcome = g.await(ctx, s, p.hash, waiter, w)
		p.turn = wake.Turn
	}
	if w.wakes++; w.wakes == maxWakes {
		w.callsNow = true
	}
	return wake, outcome
}

// tooLate reports whether too little of the deadline is left to get a response.
func (g *Guard) tooLate(s *shard, w *turnWait) bool {
	if w.since.IsZero() || g.timeLeft(w) >= time.Duration(s.latency.Load()) {
		return false
	}
	g.excludeStalls(w)
	return g.timeLeft(w) < time.Duration(s.latency.Load())
}

// outOfTime returns the outcome of a request that has waited for others as long as it can. If the wait was so long
// because this process is overloaded, the request is refused; otherwise its policy decides.
func (g *Guard) outOfTime(s *shard) admission.Outcome {
	if g.busy(s) {
		return admission.Overloaded
	}
	return admission.Unavailable
}

// reservedTime returns the part of the deadline that is reserved for the request's own call. It is twice the usual response
// time, and at least a quarter of the deadline. While no response time is known, it is half of the deadline. If it is
// the whole deadline, the request does not wait for others.
func (g *Guard) reservedTime(s *shard) time.Duration {
	latency := time.Duration(s.latency.Load())
	if latency == 0 {
		return g.options.Deadline / 2
	}
	return max(2*latency, g.options.Deadline/4)
}

// startWait records that a request waits.
func (g *Guard) startWait(w *turnWait) {
	if w.since.IsZero() {
		w.since = g.clock.Now()
		g.calls.WatchStalls()
		w.stalled = g.calls.Stalled()
		g.counters.waits.Add(1)
	}
}

// endWait ends the wait, if startWait was called.
func (g *Guard) endWait(w *turnWait) {
	if !w.since.IsZero() {
		g.calls.EndWatch()
	}
}

// timeLeft returns the rest of the deadline.
func (g *Guard) timeLeft(w *turnWait) time.Duration {
	return g.options.Deadline - g.clock.Since(w.since)
}

// uncertainty returns for how long it is unknown whether an earlier denial of a check has expired. The store made the
// denial at some time between call and response, so the time at which it expires is only known to lie in a range. A
// call within the range is likely to be denied, so the request waits until the range has passed before it asks for a
// turn.
func (g *Guard) uncertainty(p *pendingCheck, w *turnWait) time.Duration {
	if w.callsNow || w.paused {
		return 0
	}
	pause := admission.Micros(g.denials.Uncertainty(p.hash, p.check, g.micros()))
	if pause > g.options.Deadline/8 {
		return 0 // the wait would use too much of the deadline
	}
	return max(0, pause)
}

// pause waits for the given time. It returns Admitted after that time, otherwise the reason why the wait ended early.
func (g *Guard) pause(ctx context.Context, s *shard, pause time.Duration) admission.Outcome {
	timer := g.clock.NewTimer(pause)
	defer timer.Stop()
	if clk, ok := g.clock.(clock.Scheduler); ok { // a simulator runs other goroutines before this one may block
		clk.Wait(func() bool { return len(timer.C()) > 0 || s.circuit.open.Load() || ctx.Err() != nil })
	}
	select {
	case <-timer.C():
		return admission.Admitted
	case <-*s.circuit.opened.Load():
		return admission.Unavailable
	case <-ctx.Done():
		return admission.Canceled
	}
}

// learnedDenial looks for a denial of one of the checks: in the response that woke the check with index i, and in the
// deny cache. It returns the index of the denied check and the decision on it.
func (g *Guard) learnedDenial(
	checks []pendingCheck, i int, wake admission.Wake,
) (denied int, d headgate.Decision, ok bool) {
	now := g.micros()
	if wake.Applies && wake.Denial != nil && wake.Denial.Matches(checks[i].hash, checks[i].check) {
		if d, ok := wake.Denial.DecideForWaiter(checks[i].check.Cost, now); ok {
			g.counters.sharedDenials.Add(1)
			return i, d, true
		}
	}
	for j := range checks {
		if d, ok := g.denials.Lookup(checks[j].hash, checks[j].check, now); ok {
			g.counters.cacheHits.Add(1)
			return j, d, true
		}
	}
	return 0, d, false
}

// await waits until a waiter is woken or has waited long enough. It returns Admitted if the request may ask for turns
// again.
func (g *Guard) await(
	ctx context.Context, s *shard, hash uint64, waiter *admission.Waiter, w *turnWait,
) (admission.Wake, admission.Outcome) {
	wait := g.timeLeft(w)
	if !w.untilDeadline {
		wait -= g.reservedTime(s)
	}
	timer := g.clock.NewTimer(wait)
	defer timer.Stop()
	wake, outcome := admission.Wake{}, admission.Admitted
	if clk, ok := g.clock.(clock.Scheduler); ok { // a simulator runs other goroutines before this one may block
		clk.Wait(func() bool {
			return len(waiter.Woken()) > 0 || len(timer.C()) > 0 || s.circuit.open.Load() || ctx.Err() != nil
		})
	}
	select {
	case wake = <-waiter.Woken():
	case <-*s.circuit.opened.Load():
		outcome = admission.Unavailable
	case <-ctx.Done():
		outcome = admission.Canceled
	case <-timer.C():
		outcome = admission.TimedOut
		g.excludeStalls(w)
	}
	if outcome != admission.Admitted {
		var woken, responded bool
		wake, woken, responded = g.gate.GiveUp(hash, waiter)
		w.responded = w.responded || responded
		if outcome == admission.TimedOut && woken { // it was woken just after the timer fired
			outcome = admission.Admitted
		}
	}
	switch outcome {
	case admission.TimedOut:
		return wake, g.afterTimeout(s, w)
	case admission.Admitted:
		return wake, g.afterWake(&wake, w)
	default:
		return wake, outcome
	}
}

// afterTimeout returns the outcome of a request that has waited for other callers as long as it may. Admitted means
// that it asks for turns again, with callsNow or untilDeadline set.
func (g *Guard) afterTimeout(s *shard, w *turnWait) admission.Outcome {
	if w.untilDeadline {
		if g.timeLeft(w) > 0 || g.extendWait(s, w) {
			return admission.Admitted
		}
		return g.outOfTime(s)
	}
	// If others got no response although twice the usual response time has passed, the store is probably unreachable. Then
	// the request waits until its deadline. Otherwise it calls the store.
	w.callsNow = !w.failed && (w.responded || g.clock.Since(w.since) < 2*time.Duration(s.latency.Load()))
	w.untilDeadline = !w.callsNow
	return admission.Admitted
}

// afterWake returns the outcome of a request that was woken. Admitted means that it asks for turns again.
func (g *Guard) afterWake(wake *admission.Wake, w *turnWait) admission.Outcome {
	switch {
	case !wake.Failed:
		w.responded = true
	case g.timeLeft(w) <= g.options.Deadline/2:
		return admission.Unavailable // too little time is left to wait for yet another caller
	default:
		w.failed = true
	}
	return admission.Admitted
}

// releaseTurns gives up the turns of checks that are not sent.
func (g *Guard) releaseTurns(checks []pendingCheck) {
	for i := range checks {
		if checks[i].turn.Held() {
			checks[i].turn.Leave(admission.Result{}, g.micros())
		}
	}
}

// markSent records the generations of the deny cache just before the store is called, and returns the time.
func (g *Guard) markSent(checks []pendingCheck) int64 {
	if g.denials == nil {
		return 0
	}
	for i := range checks {
		checks[i].generation = g.denials.Generation(checks[i].hash)
	}
	return g.micros()
}

// learn remembers the denials in the responses to checks, and ends the turns of the checks.
func (g *Guard) learn(checks []pendingCheck, calledAt int64, decisions []headgate.Decision) {
	if g.denials == nil {
		return
	}
	now := g.micros()
	for i := range checks {
		p, d := &checks[i], &decisions[i]
		r := admission.Result{Kind: admission.NotTaken, Remaining: d.Remaining, CalledAt: calledAt}
		switch {
		case d.Degraded:
			r.Kind = admission.Unclear
		case d.Limit == 0: // the store made no decision on this check
			r.Kind = admission.NotSent
		default:
			r.Denial = g.denials.Learn(p.hash, p.check, admission.Response{
				CalledAt: calledAt, RespondedAt: now, Generation: p.generation, Decision: d,
			})
			if d.Receipt.Units > 0 {
				r.Kind = admission.Taken
			}
			// An allowed decision can also show that more units would be denied. Pass that denial to waiters only if the
			// same cost would be denied now.
			if d.Allowed && r.Denial != nil {
				if _, denies := r.Denial.Decide(p.check.Cost, now); !denies {
					r.Denial = nil
				}
			}
		}
		p.turn.Leave(r, now)
	}
}

// failTurns ends the turns of checks without a response.
func (g *Guard) failTurns(checks []pendingCheck) {
	for i := range checks {
		checks[i].turn.Leave(admission.Result{Kind: admission.NoResponse}, g.micros())
	}
}
