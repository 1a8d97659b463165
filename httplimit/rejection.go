package httplimit

import (
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

// A rejection is the text of the response to a denied request, and the inputs from which it was built. When many
// requests are denied, the inputs are often the same as those of the last response. Then the same text is sent again.
type rejection struct {
	inputs rejectionInputs
	lines  []byte // header lines
	body   []byte
}

// rejectionInputs determine the text of a rejection, for the same Fields.
type rejectionInputs struct {
	status      int
	reason      engine.Reason
	neverPasses bool  // RetryAfter is headgate.Never
	retryAfter  int64 // in seconds
	tightest    int   // the result of the function tightest
	reset       int64 // X-RateLimit-Reset
	limits      []limitInputs
}

// limitInputs are the inputs from one limit.
type limitInputs struct {
	rule                *rules.Rule
	name                string
	limit               headgate.Limit
	isReported          bool // the result of the function isReported
	hasState            bool // the result of the function hasState
	allowed             bool
	capacity, remaining int64
	wait                int64 // seconds until more units are available, or -1 if that is not known
}

// read sets the inputs to those of a verdict.
func (r *rejectionInputs) read(f *Fields, v *engine.Verdict, retryAfter int64, now time.Time) {
	limits := r.limits[:0]
	for i := range v.LimitCount() {
		l := v.LimitAt(i)
		d := l.Decision
		inputs := limitInputs{
			rule: l.Matched.Rule, name: l.Matched.LimitName(l.Limit), limit: *limitOf(&l),
			isReported: isReported(&l), hasState: hasState(&l), allowed: d.Allowed, capacity: d.Limit, remaining: d.Remaining,
			wait: -1,
		}
		if until, ok := untilMore(&inputs.limit, d); ok {
			inputs.wait = wholeSeconds(until)
		}
		limits = append(limits, inputs)
	}
	*r = rejectionInputs{
		status: v.Status, reason: v.Reason, neverPasses: v.RetryAfter == headgate.Never, retryAfter: retryAfter,
		tightest: tightest(v), limits: limits,
	}
	if r.tightest >= 0 {
		r.reset = f.reset(v.LimitAt(r.tightest).Decision, now)
	}
}

func (r *rejectionInputs) equal(o *rejectionInputs) bool {
	return r.status == o.status && r.reason == o.reason && r.neverPasses == o.neverPasses &&
		r.retryAfter == o.retryAfter && r.tightest == o.tightest && r.reset == o.reset && slices.Equal(r.limits, o.limits)
}

// prepare makes r the rejection for a verdict. It reads the inputs into next and, if they differ from those of r, swaps
// them with those of r, so that their memory is reused.
func (r *rejection) prepare(f *Fields, v *engine.Verdict, retryAfter int64, now time.Time, next *rejectionInputs) {
	next.read(f, v, retryAfter, now)
	if next.equal(&r.inputs) {
		return
	}
	r.inputs, *next = *next, r.inputs
	t := fieldText{buf: append(r.lines[:0], problemLines...), lines: true}
	f.writeAll(&t, v, retryAfter, now)
	r.lines = t.buf
	p := problemOf(v)
	r.body = p.append(r.body[:0], v, retryAfter)
}
