package httplimit

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules/match"
)

// The header fields that the middleware sets.
const (
	fieldRetryAfter = iota
	fieldPolicy
	fieldRateLimit
	fieldLimit
	fieldRemaining
	fieldReset
	verdictFields // the number of fields above, which describe a verdict
)

const (
	fieldType = verdictFields + iota
	fieldCache
	maxFields
)

// fieldNames are the names of the fields in canonical form.
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

// xRateLimitNames are the names of the X-RateLimit fields.
var xRateLimitNames = fieldNames[fieldLimit:verdictFields]

// fieldValues are the values of fields, empty for those that are omitted.
type fieldValues [maxFields]string

// setIn sets the fields in a header, which then refers to the values. RateLimit and RateLimit-Policy are lists: the
// handler's values follow ours. The other fields have one value, and ours replaces the handler's.
func (f *fieldValues) setIn(h http.Header) {
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

// MaxJitter is the upper bound of Fields.Jitter.
const MaxJitter = time.Hour

// Fields selects the header fields that report limits to clients. The zero Fields selects both dialects.
type Fields struct {
	// NoRateLimit omits RateLimit and RateLimit-Policy, those of draft-ietf-httpapi-ratelimit-headers-11.
	NoRateLimit bool
	// NoXRateLimit omits X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset.
	NoXRateLimit bool
	// ResetDelta makes X-RateLimit-Reset a number of seconds from now. Default is seconds since 1970.
	ResetDelta bool
	// Jitter limits the random time that is added to Retry-After, so that clients denied together do not return
	// together. At most MaxJitter. Default none.
	Jitter time.Duration
}

// Validate returns why the Fields are invalid.
func (f Fields) Validate() error {
	if f.Jitter < 0 || f.Jitter > MaxJitter {
		return fmt.Errorf("httplimit: Jitter %s: want 0 to %s", f.Jitter, MaxJitter)
	}
	return nil
}

// A Field is a header field.
type Field struct {
	// Name is in canonical form, such as "Ratelimit-Policy".
	Name  string
	Value string
}

// Append appends the fields for a verdict, for callers that do not use this package's handler. retryAfter is the result
// of RetryAfter, and now the current time.
func (f *Fields) Append(dst []Field, v *engine.Verdict, retryAfter time.Duration, now time.Time) []Field {
	var values fieldValues
	var buf [512]byte
	f.setValues(&values, v, wholeSeconds(retryAfter), now, buf[:0])
	for i, value := range values {
		if value != "" {
			dst = append(dst, Field{Name: fieldNames[i], Value: value})
		}
	}
	return dst
}

// RetryAfter returns the time after which a denied client should retry, with Jitter. It is 0 if a retry is useless, and
// for allowed requests.
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

// setValues sets the values for a verdict. They are parts of one string, built in buf, which is returned for reuse.
func (f *Fields) setValues(
	values *fieldValues, v *engine.Verdict, retryAfter int64, now time.Time, buf []byte,
) []byte {
	t := fieldText{buf: buf}
	f.writeAll(&t, v, retryAfter, now)
	text := string(t.buf)
	for i, position := range t.positions {
		values[i] = text[position.from:position.to]
	}
	return t.buf
}

// A fieldText holds fields in one text: either their values one after another, or complete header lines.
type fieldText struct {
	buf       []byte
	lines     bool
	positions [verdictFields]struct{ from, to int } // of the values in buf
}

func (t *fieldText) begin(field int) {
	if t.lines {
		t.buf = append(t.buf, fieldNames[field]...)
		t.buf = append(t.buf, ": "...)
	}
	t.positions[field].from = len(t.buf)
}

func (t *fieldText) end(field int) {
	t.positions[field].to = len(t.buf)
	if t.lines {
		t.buf = append(t.buf, "\r\n"...)
	}
}

func (t *fieldText) number(field int, n int64) {
	t.begin(field)
	t.buf = strconv.AppendInt(t.buf, n, 10)
	t.end(field)
}

// writeAll writes all fields for a verdict.
func (f *Fields) writeAll(t *fieldText, v *engine.Verdict, retryAfter int64, now time.Time) {
	if retryAfter > 0 {
		t.number(fieldRetryAfter, retryAfter)
	}
	if !anyReported(v) {
		return
	}
	tight := tightest(v)
	if !f.NoRateLimit {
		t.begin(fieldPolicy)
		t.policies(v)
		t.end(fieldPolicy)
		if tight >= 0 {
			t.begin(fieldRateLimit)
			t.states(v, retryAfter)
			t.end(fieldRateLimit)
		}
	}
	if tight < 0 || f.NoXRateLimit {
		return
	}
	d := v.LimitAt(tight).Decision
	t.number(fieldLimit, d.Limit)
	t.number(fieldRemaining, max(d.Remaining, 0))
	if f.ResetDelta {
		t.number(fieldReset, wholeSeconds(d.ResetAfter))
	} else {
		t.number(fieldReset, resetAt(d, now))
	}
}

// isReported reports whether a limit is reported: it was checked, and is not of a shadow rule.
func isReported(a *engine.LimitView) bool { return !a.Shadow && a.Decision.Limit > 0 }

// anyReported reports whether any limit is reported.
func anyReported(v *engine.Verdict) bool {
	for i := range v.LimitCount() {
		if a := v.LimitAt(i); isReported(&a) {
			return true
		}
	}
	return false
}

// hasState reports whether the rest of a limit is known, because the store was reachable.
func hasState(a *engine.LimitView) bool { return isReported(a) && !a.Decision.Degraded }

// policies writes the value of RateLimit-Policy.
func (t *fieldText) policies(v *engine.Verdict) {
	start := len(t.buf)
	for i := range v.LimitCount() {
		a := v.LimitAt(i)
		if !isReported(&a) {
			continue
		}
		if len(t.buf) > start {
			t.buf = append(t.buf, ", "...)
		}
		t.buf = appendName(t.buf, a.Matched, a.Limit, hasSeveral(v, i))
		t.buf = appendQuota(t.buf, &a.Matched.Limit(a.Limit).Limit)
	}
}

// states writes the value of RateLimit.
func (t *fieldText) states(v *engine.Verdict, retryAfter int64) {
	start := len(t.buf)
	for i := range v.LimitCount() {
		a := v.LimitAt(i)
		if !hasState(&a) {
			continue
		}
		if len(t.buf) > start {
			t.buf = append(t.buf, ", "...)
		}
		t.buf = appendName(t.buf, a.Matched, a.Limit, hasSeveral(v, i))
		t.buf = appendState(t.buf, &a, retryAfter)
	}
}

// appendName appends the name of a policy: the rule's id and, if several limits of the rule apply, the limit's name.
func appendName(dst []byte, m *match.Result, limit int, several bool) []byte {
	dst = append(dst, '"')
	dst = appendQuoted(dst, m.Rule.ID)
	if several {
		dst = append(dst, '/')
		dst = appendQuoted(dst, m.LimitName(limit))
	}
	return append(dst, '"')
}

// appendQuota appends the parameters of a policy: its count, and its window if that is in whole seconds.
func appendQuota(dst []byte, l *headgate.Limit) []byte {
	dst = append(dst, ";q="...)
	dst = strconv.AppendInt(dst, l.Count, 10)
	if w := l.Period; w > 0 && w%time.Second == 0 {
		dst = append(dst, ";w="...)
		dst = strconv.AppendInt(dst, int64(w/time.Second), 10)
	}
	return dst
}

// appendState appends the rest of a limit, and the seconds until more is available.
func appendState(dst []byte, a *engine.LimitView, retryAfter int64) []byte {
	d := a.Decision
	dst = append(dst, ";r="...)
	dst = strconv.AppendInt(dst, max(d.Remaining, 0), 10)
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

// resetAt returns when a limit is fully restored, in seconds since 1970.
func resetAt(d *headgate.Decision, now time.Time) int64 {
	reset := max(d.ResetAfter, 0)
	seconds, rest := int64(reset/time.Second), reset%time.Second
	return now.Unix() + seconds + wholeSeconds(time.Duration(now.Nanosecond())+rest)
}

// PolicyName returns the name of a verdict's limit in RateLimit-Policy, given its index in Verdict.Limits.
func PolicyName(limits []engine.Applied, i int) string {
	rule := limits[i].Rule
	if i > 0 && limits[i-1].Rule == rule || i+1 < len(limits) && limits[i+1].Rule == rule {
		return rule.ID + "/" + limits[i].Name
	}
	return rule.ID
}

// hasSeveral reports whether other limits of the same rule apply. They are adjacent.
func hasSeveral(v *engine.Verdict, i int) bool {
	m := v.LimitAt(i).Matched
	return i > 0 && v.LimitAt(i-1).Matched == m || i+1 < v.LimitCount() && v.LimitAt(i+1).Matched == m
}

// tightest returns the index of the limit for X-RateLimit, -1 if none has a state.
func tightest(v *engine.Verdict) int {
	var least *headgate.Decision
	index := -1
	for i := range v.LimitCount() {
		a := v.LimitAt(i)
		d := a.Decision
		switch {
		case !hasState(&a):
		case least == nil,
			least.Allowed && !d.Allowed,
			!d.Allowed && d.RetryAfter > least.RetryAfter,
			least.Allowed && d.Allowed && d.Remaining < least.Remaining:
			least, index = d, i
		}
	}
	return index
}
