package httplimit

import (
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

// A rejection is the response to a denied request: its text, and the facts that the text states. When many requests are
// denied, the facts of one response are often those of the last one. Then its text is sent again.
type rejection struct {
	facts rejectionFacts
	lines []byte // header lines
	body  []byte
}

// rejectionFacts determine the text of a rejection, for the same Fields.
type rejectionFacts struct {
	status     int
	reason     engine.Reason
	never      bool  // a retry is useless
	retryAfter int64 // in seconds
	tight      int   // the limit that X-RateLimit reports, as tightest returns it
	reset      int64 // X-RateLimit-Reset
	limits     []limitFacts
}

// limitFacts are the facts about one limit.
type limitFacts struct {
	rule                      *rules.Rule
	name                      string
	limit                     headgate.Limit
	reported, known, allowed  bool // known: its state is
	capacity, remaining, wait int64
}

// read sets the facts for a verdict.
func (r *rejectionFacts) read(f *Fields, v *engine.Verdict, retryAfter int64, now time.Time) {
	limits := r.limits[:0]
	for i := range v.LimitCount() {
		l := v.LimitAt(i)
		d := l.Decision
		facts := limitFacts{
			rule: l.Matched.Rule, name: l.Matched.LimitName(l.Limit), limit: *limitOf(&l),
			reported: isReported(&l), known: hasState(&l), allowed: d.Allowed, capacity: d.Limit, remaining: d.Remaining,
			wait: -1,
		}
		if until, ok := untilMore(&facts.limit, d); ok {
			facts.wait = wholeSeconds(until)
		}
		limits = append(limits, facts)
	}
	*r = rejectionFacts{
		status: v.Status, reason: v.Reason, never: v.RetryAfter == headgate.Never, retryAfter: retryAfter,
		tight: tightest(v), limits: limits,
	}
	if r.tight >= 0 {
		r.reset = f.reset(v.LimitAt(r.tight).Decision, now)
	}
}

func (r *rejectionFacts) equal(o *rejectionFacts) bool {
	return r.status == o.status && r.reason == o.reason && r.never == o.never && r.retryAfter == o.retryAfter &&
		r.tight == o.tight && r.reset == o.reset && slices.Equal(r.limits, o.limits)
}

// prepare makes r the rejection for a verdict. scratch has memory for facts, and gets r's earlier facts.
func (r *rejection) prepare(f *Fields, v *engine.Verdict, retryAfter int64, now time.Time, scratch *rejectionFacts) {
	scratch.read(f, v, retryAfter, now)
	if scratch.equal(&r.facts) {
		return
	}
	r.facts, *scratch = *scratch, r.facts
	t := fieldText{buf: append(r.lines[:0], problemLines...), lines: true}
	f.writeAll(&t, v, retryAfter, now)
	r.lines = t.buf
	p := problemOf(v)
	r.body = p.append(r.body[:0], v, retryAfter)
}
