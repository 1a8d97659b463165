package httplimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
)

// The header fields of answers.
const (
	fieldRetryAfter = iota
	fieldPolicy
	fieldRateLimit
	fieldLimit
	fieldRemaining
	fieldReset
	verdictFields // so many are there to tell of a verdict
)

const (
	fieldType = verdictFields + iota
	fieldCache
	maxFields
)

// fieldNames are their names as net/http has them. On the wire their case means nothing.
var fieldNames = [maxFields]string{
	fieldRetryAfter: "Retry-After",
	fieldPolicy:     "Ratelimit-Policy",
	fieldRateLimit:  "Ratelimit",
	fieldLimit:      "X-Ratelimit-Limit",
	fieldRemaining:  "X-Ratelimit-Remaining",
	fieldReset:      "X-Ratelimit-Reset",
	fieldType:       "Content-Type",
	fieldCache:      "Cache-Control",
}

// ofXRateLimit are the fields of which there can be but one.
var ofXRateLimit = fieldNames[fieldLimit:verdictFields]

// fieldValues are the values of fields, empty for those that are left out.
type fieldValues [maxFields]string

// put sets the fields in a header, which then refers to them. RateLimit and RateLimit-Policy are lists: what a handler says
// there is as true as what we do, and stands behind it. Of the others there can be but one, and it is ours.
func (f *fieldValues) put(h http.Header) {
	for i := range f {
		if f[i] == "" {
			continue
		}
		name, line := fieldNames[i], f[i:i+1:i+1]
		if i == fieldPolicy || i == fieldRateLimit {
			line = append(line, h[name]...)
		}
		h[name] = line
	}
}

// MaxJitter is the most that Fields.Jitter can be.
const MaxJitter = time.Hour

// Fields says which header fields tell clients of their limits. The zero Fields tells them in both dialects.
type Fields struct {
	// NoRateLimit leaves out RateLimit and RateLimit-Policy, those of draft-ietf-httpapi-ratelimit-headers-11.
	NoRateLimit bool
	// NoXRateLimit leaves out X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset.
	NoXRateLimit bool
	// ResetDelta makes X-RateLimit-Reset a number of seconds from now. Default is the time itself, in seconds since 1970.
	ResetDelta bool
	// Jitter is the most that is added to Retry-After by chance, so that clients who were denied together do not come back
	// together. It is never shortened. At most MaxJitter. Default none.
	Jitter time.Duration
}

// usual tells that clients are told in both dialects, and the time itself.
func (f *Fields) usual() bool { return !f.NoRateLimit && !f.NoXRateLimit && !f.ResetDelta }

// Validate reports what is wrong with the Fields.
func (f Fields) Validate() error {
	if f.Jitter < 0 || f.Jitter > MaxJitter {
		return fmt.Errorf("httplimit: Jitter %s: want 0 to %s", f.Jitter, MaxJitter)
	}
	return nil
}

// A Field is a header field.
type Field struct {
	// Name is as net/http has it, "Ratelimit-Policy".
	Name  string
	Value string
}

// Append appends the fields that tell of a verdict, and returns them. It is for who answers by other ways than this package's
// handler. What it is given is what RetryAfter has returned, and the time now.
func (f *Fields) Append(dst []Field, v *engine.Verdict, retryAfter time.Duration, now time.Time) []Field {
	var values fieldValues
	var buf [512]byte
	f.fill(&values, v, nil, wholeSeconds(retryAfter), now, buf[:0])
	for i, value := range values {
		if value != "" {
			dst = append(dst, Field{Name: fieldNames[i], Value: value})
		}
	}
	return dst
}

// RetryAfter returns when a client who is denied should come back, with Jitter. It is 0 if that is of no use, and for who
// passes.
func (f *Fields) RetryAfter(v *engine.Verdict) time.Duration {
	if v.Action != engine.Reject || v.RetryAfter == headgate.Never {
		return 0
	}
	wait := v.RetryAfter
	if f.Jitter > 0 {
		wait += rand.N(f.Jitter + 1)
	}
	return max(wait, time.Microsecond)
}

// fill sets the values that tell of a verdict. They are parts of one string, built in buf, which is returned to be used again.
func (f *Fields) fill(values *fieldValues, v *engine.Verdict, known *policies, retryAfter int64, now time.Time, buf []byte) []byte {
	t := fieldText{buf: buf, known: known}
	f.tell(&t, v, retryAfter, now)
	text := string(t.buf)
	for i, part := range t.parts {
		values[i] = text[part.from:part.to]
	}
	return t.buf
}

// A fieldText is fields in one piece: their values one after the other or, as lines, with their names.
type fieldText struct {
	buf   []byte
	known *policies // nil if nothing is
	lines bool
	parts [verdictFields]struct{ from, to int } // the values in buf
}

func (t *fieldText) begin(field int) {
	if t.lines {
		t.buf = append(t.buf, fieldNames[field]...)
		t.buf = append(t.buf, ": "...)
	}
	t.parts[field].from = len(t.buf)
}

func (t *fieldText) end(field int) {
	t.parts[field].to = len(t.buf)
	if t.lines {
		t.buf = append(t.buf, "\r\n"...)
	}
}

func (t *fieldText) number(field int, n int64) {
	t.begin(field)
	t.buf = strconv.AppendInt(t.buf, n, 10)
	t.end(field)
}

// tell writes all that is to be told of a verdict.
func (f *Fields) tell(t *fieldText, v *engine.Verdict, retryAfter int64, now time.Time) {
	if retryAfter > 0 {
		t.number(fieldRetryAfter, retryAfter)
	}
	if !anyTold(v) {
		return
	}
	tight := tightest(v)
	if !f.NoRateLimit {
		known := t.known.of(v)
		t.begin(fieldPolicy)
		if known != nil {
			t.buf = append(t.buf, known.items...)
		} else {
			t.policies(v)
		}
		t.end(fieldPolicy)
		if tight >= 0 {
			t.begin(fieldRateLimit)
			t.states(v, known, retryAfter)
			t.end(fieldRateLimit)
		}
	}
	if tight < 0 || f.NoXRateLimit {
		return
	}
	d := v.At(tight).Decision
	t.number(fieldLimit, d.Limit)
	t.number(fieldRemaining, max(d.Remaining, 0))
	if f.ResetDelta {
		t.number(fieldReset, wholeSeconds(d.ResetAfter))
	} else {
		t.number(fieldReset, resetAt(d, now))
	}
}

// told tells whether a limit is told of: it was asked, and is not one that only looks on.
func told(a *engine.Asked) bool { return !a.Shadow && a.Decision.Limit > 0 }

// anyTold tells whether there is a limit that is told of.
func anyTold(v *engine.Verdict) bool {
	for i := range v.Asked() {
		if a := v.At(i); told(&a) {
			return true
		}
	}
	return false
}

// counted tells whether it is known how much of a limit is left. Where the store could not be asked it is not.
func counted(a *engine.Asked) bool { return told(a) && !a.Decision.Degraded }

// policies writes the value of RateLimit-Policy.
func (t *fieldText) policies(v *engine.Verdict) {
	start := len(t.buf)
	for i := range v.Asked() {
		a := v.At(i)
		if !told(&a) {
			continue
		}
		if len(t.buf) > start {
			t.buf = append(t.buf, listMark...)
		}
		t.buf = appendName(t.buf, a.Matched, a.Limit, hasSeveral(v, i))
		t.buf = appendQuota(t.buf, &a.Matched.Limit(a.Limit).Limit)
	}
}

// states writes the value of RateLimit.
func (t *fieldText) states(v *engine.Verdict, known *policyTexts, retryAfter int64) {
	start, dst := len(t.buf), t.buf
	for i := range v.Asked() {
		a := v.At(i)
		if !counted(&a) {
			continue
		}
		quick := false
		if known != nil {
			text := known.states[i%mostKnown]
			if len(dst) == start && i > 0 { // those before it are not counted
				text = text[len(listMark):]
			}
			dst, quick = append(dst, text...), known.quick[i%mostKnown]
		} else {
			if len(dst) > start {
				dst = append(dst, listMark...)
			}
			dst = appendName(dst, a.Matched, a.Limit, hasSeveral(v, i))
			dst = append(dst, stateMark...)
		}
		dst = appendState(dst, &a, quick, retryAfter)
	}
	t.buf = dst
}

// appendState appends how much of a limit is left, and in how many seconds there is more. quick tells that it is a quick one.
func appendState(dst []byte, a *engine.Asked, quick bool, retryAfter int64) []byte {
	d := a.Decision
	dst = strconv.AppendInt(dst, max(d.Remaining, 0), 10)
	if quick && isFilling(d) {
		return append(dst, ";t=1"...)
	}
	until, known := untilMore(&a.Matched.Limit(a.Limit).Limit, d)
	if !known {
		return dst
	}
	seconds := wholeSeconds(until)
	if retryAfter > 0 {
		seconds = min(seconds, retryAfter)
	}
	dst = append(dst, ";t="...)
	return strconv.AppendInt(dst, seconds, 10)
}

// resetAt returns when a limit is as good as new, in seconds since 1970.
func resetAt(d *headgate.Decision, now time.Time) int64 {
	return now.Unix() + wholeSeconds(time.Duration(now.Nanosecond())+d.ResetAfter)
}

// PolicyName returns the name that a verdict's limit has in RateLimit-Policy, given its place in Verdict.Limits.
func PolicyName(limits []engine.Applied, i int) string {
	rule := limits[i].Rule
	if i > 0 && limits[i-1].Rule == rule || i+1 < len(limits) && limits[i+1].Rule == rule {
		return rule.ID + "/" + limits[i].Name
	}
	return rule.ID
}

// hasSeveral tells whether the rule of a limit has others that apply. They stand side by side.
func hasSeveral(v *engine.Verdict, i int) bool {
	m := v.At(i).Matched
	return i > 0 && v.At(i-1).Matched == m || i+1 < v.Asked() && v.At(i+1).Matched == m
}

// tightest returns which limit X-RateLimit tells of, -1 if none was counted.
func tightest(v *engine.Verdict) int {
	least, at := (*headgate.Decision)(nil), -1
	for i := range v.Asked() {
		a := v.At(i)
		d := a.Decision
		switch {
		case !counted(&a):
		case least == nil,
			least.Allowed && !d.Allowed,
			!d.Allowed && d.RetryAfter > least.RetryAfter,
			least.Allowed && d.Allowed && d.Remaining < least.Remaining:
			least, at = d, i
		}
	}
	return at
}
