package guard

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/redisstore/guard/internal/admission"
)

// A pendingCheck is a check that is about to be sent to the store.
type pendingCheck struct {
	check      *headgate.Check
	hash       uint64
	generation uint32 // of the deny cache when the store was called
	turn       admission.Turn
}

// A turnWait is the state of a request that waits for its turns. The wait is part of the deadline.
type turnWait struct {
	since      time.Time     // zero if it has not waited
	responded  bool          // other callers of its keys got a response meanwhile
	failed     bool          // another caller of its keys got none
	waitsToEnd bool          // it waits to the end, since it will not call the store itself
	callsNow   bool          // it calls the store without waiting for others
	paused     bool          // it has waited out the uncertainty of a denial
	wakes      int           // how often it was woken
	moved      time.Duration // by how much since was moved because this process is busy
	stopped    bool          // since was moved because this process was stopped
}

// maxWakes is how often a request is woken until it calls the store without its turns. Two requests with the same two
// keys could otherwise wake each other until their deadline: each gets the turn that the other releases.
const maxWakes = 8

// turnResult is the result of awaitTurns.
type turnResult struct {
	outcome  admission.Outcome
	since    time.Time // when the request began to wait, or zero
	denied   int       // the index of the denied check, if the outcome is Denied
	decision headgate.Decision
}

// awaitTurns waits until all checks, which are of one shard and were admitted there, have their turn. A waiting request
// holds no other turn, so that no two wait for each other, and does not count as admitted.
func (g *Guard) awaitTurns(ctx context.Context, s *shard, checks []pendingCheck) turnResult {
	if g.denials == nil {
		return turnResult{}
	}
	w := turnWait{callsNow: g.reserve(s) >= g.options.Deadline}
	for i := 0; i < len(checks); {
		p := &checks[i]
		if p.check.Cost == 0 || p.turn.Held() {
			i++
			continue
		}
		var waiter *admission.Waiter
		pause := g.uncertainty(p, &w)
		if pause == 0 {
			var turn admission.Turn
			if turn, waiter = g.gate.Enter(p.hash, p.check, g.micros(), w.callsNow); waiter == nil {
				if !turn.Held() || w.callsNow && turn.Scout() {
					g.counters.ungated.Add(1)
				}
				p.turn = turn
				i++
				continue
			}
		}
		g.releaseTurns(checks)
		g.startWait(&w)
		s.queue.Leave(false)
		var reason admission.Wake
		var outcome admission.Outcome
		if waiter == nil {
			outcome, w.paused = g.pause(ctx, s, pause), true
		} else {
			reason, outcome = g.await(ctx, s, p.hash, waiter, &w)
			p.turn = reason.Turn
		}
		s.queue.Resume()
		if outcome != admission.Admitted {
			g.releaseTurns(checks)
			return turnResult{outcome: outcome, since: w.since}
		}
		if w.wakes++; w.wakes == maxWakes {
			w.callsNow = true
		}
		if denied, d, ok := g.learnedDenial(checks, i, reason); ok {
			g.releaseTurns(checks)
			return turnResult{outcome: admission.Denied, since: w.since, denied: denied, decision: d}
		}
		i = 0
	}
	if !w.since.IsZero() && g.timeLeft(&w) < time.Duration(s.latency.Load()) && !g.waitLonger(s, &w) {
		g.releaseTurns(checks)
		return turnResult{outcome: g.outOfTime(s), since: w.since}
	}
	return turnResult{since: w.since}
}

// outOfTime returns the outcome of a request that has waited for others as long as it can: its policy decides, or it is
// refused if the wait was so long because this process is overloaded.
func (g *Guard) outOfTime(s *shard) admission.Outcome {
	if g.busy(s) {
		return admission.Overloaded
	}
	return admission.Unavailable
}

// reserve returns how much of the deadline is reserved for the request's own call after waiting for others. If
// responses take half of the deadline, that is all of it.
func (g *Guard) reserve(s *shard) time.Duration {
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
		g.counters.waits.Add(1)
	}
}

// timeLeft returns the rest of the deadline.
func (g *Guard) timeLeft(w *turnWait) time.Duration {
	return g.options.Deadline - g.clock.Since(w.since)
}

// uncertainty returns how long to wait before asking for a turn: a denial has expired if the store decided at the
// earliest possible time, and has not if it decided at the latest. A caller that asks now is likely to be denied, and
// so is the next one.
func (g *Guard) uncertainty(p *pendingCheck, w *turnWait) time.Duration {
	if w.callsNow || w.paused {
		return 0
	}
	pause := admission.Micros(g.denials.Uncertainty(p.hash, p.check, g.micros()))
	if pause > g.options.Deadline/8 {
		return 0
	}
	return max(0, pause)
}

// pause waits for a while.
func (g *Guard) pause(ctx context.Context, s *shard, pause time.Duration) admission.Outcome {
	timer := g.clock.NewTimer(pause)
	defer timer.Stop()
	if clk, ok := g.clock.(clock.Scheduler); ok {
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

// learnedDenial reports whether one of the checks is denied by what was learned until number i of them was woken.
func (g *Guard) learnedDenial(
	checks []pendingCheck, i int, reason admission.Wake,
) (denied int, d headgate.Decision, ok bool) {
	now := g.micros()
	if reason.Shared && reason.Denial != nil && reason.Denial.Matches(checks[i].hash, checks[i].check) {
		if d, ok := reason.Denial.Share(checks[i].check.Cost, now); ok {
			g.counters.shared.Add(1)
			return i, d, true
		}
	}
	for i := range checks {
		if d, ok := g.denials.Lookup(checks[i].hash, checks[i].check, now); ok {
			g.counters.cacheHits.Add(1)
			return i, d, true
		}
	}
	return 0, d, false
}

// await waits until a waiter is woken or has waited long enough. The request then calls the store itself, unless other
// callers should have got a response by then and did not.
func (g *Guard) await(
	ctx context.Context, s *shard, hash uint64, waiter *admission.Waiter, w *turnWait,
) (admission.Wake, admission.Outcome) {
	wait, began := g.timeLeft(w), g.clock.Now()
	if !w.waitsToEnd {
		wait -= g.reserve(s)
	}
	timer := g.clock.NewTimer(wait)
	defer timer.Stop()
	reason, outcome := admission.Wake{}, admission.Admitted
	if clk, ok := g.clock.(clock.Scheduler); ok {
		clk.Wait(func() bool {
			return len(waiter.Woken()) > 0 || len(timer.C()) > 0 || s.circuit.open.Load() || ctx.Err() != nil
		})
	}
	select {
	case reason = <-waiter.Woken():
	case <-*s.circuit.opened.Load():
		outcome = admission.Unavailable
	case <-ctx.Done():
		outcome = admission.Canceled
	case <-timer.C():
		outcome = admission.TimedOut
		g.skipStop(w, g.clock.Since(began)-max(0, wait))
	}
	if outcome != admission.Admitted {
		var woken, responded bool
		reason, woken, responded = g.gate.GiveUp(hash, waiter)
		w.responded = w.responded || responded
		if outcome == admission.TimedOut && woken {
			outcome = admission.Admitted
		}
	}
	switch {
	case outcome == admission.TimedOut && w.waitsToEnd && (g.timeLeft(w) > 0 || g.waitLonger(s, w)):
		return reason, admission.Admitted
	case outcome == admission.TimedOut && w.waitsToEnd:
		return reason, g.outOfTime(s)
	case outcome == admission.TimedOut:
		w.callsNow = !w.failed && (w.responded || g.clock.Since(w.since) < 2*time.Duration(s.latency.Load()))
		w.waitsToEnd = !w.callsNow
		return reason, admission.Admitted
	case outcome != admission.Admitted:
		return reason, outcome
	case !reason.Failed:
		w.responded = true
	case g.timeLeft(w) <= g.options.Deadline/2:
		return reason, admission.Unavailable
	default:
		w.failed = true
	}
	return reason, admission.Admitted
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

// learn remembers the responses to checks, and ends their turns.
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
		case d.Limit == 0:
			r.Kind = admission.NotSent
		default:
			r.Denial = g.denials.Learn(p.hash, p.check, admission.Response{
				CalledAt: calledAt, RespondedAt: now, Generation: p.generation, Decision: d,
			})
			if d.Receipt.Units > 0 {
				r.Kind = admission.Taken
			}
			if d.Allowed && r.Denial != nil {
				if _, denies := r.Denial.Decide(p.check.Cost, now); !denies { // it has expired
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
