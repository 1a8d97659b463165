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
	fieldContentType
	fieldCacheControl

	numFields        = iota
	numVerdictFields = fieldReset + 1 // the fields from fieldRetryAfter to fieldReset, which describe a verdict
)

// fieldNames are the names of the fields in canonical form.
var fieldNames = [numFields]string{
	fieldRetryAfter:   "Retry-After",
	fieldPolicy:       "Ratelimit-Policy",
	fieldRateLimit:    "Ratelimit",
	fieldLimit:        "X-Ratelimit-Limit",
	fieldRemaining:    "X-Ratelimit-Remaining",
	fieldReset:        "X-Ratelimit-Reset",
	fieldContentType:  "Content-Type",
	fieldCacheControl: "Cache-Control",
}

// xRateLimitNames are the names of the X-RateLimit fields.
var xRateLimitNames = fieldNames[fieldLimit:numVerdictFields]

// fieldValues are the values of the fields. The value of an omitted field is empty.
type fieldValues [numFields]string

// setIn sets the fields in a header, which then shares memory with f. RateLimit and RateLimit-Policy are lists, so
// values that the handler has set follow those of f. The values of other fields replace those of the handler.
func (f *fieldValues) setIn(h http.Header) {
	for i := range f {
		if f[i] == "" {
			continue
		}
		name, line := fieldNames[i], f[i:i+1:i+1] // without spare capacity, so that append does not change f
		if i == fieldPolicy || i == fieldRateLimit {
			line = append(line, h[name]...)
		}
		h[name] = line
	}
}

// MaxJitter is the upper bound of Fields.Jitter.
const MaxJitter = time.Hour

// Fields selects the header fields that report limits to clients. The zero Fields selects both RateLimit and
// X-RateLimit.
type Fields struct {
	// NoRateLimit omits RateLimit and RateLimit-Policy, the fields of draft-ietf-httpapi-ratelimit-headers-11.
	NoRateLimit bool
	// NoXRateLimit omits X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset.
	NoXRateLimit bool
	// ResetDelta makes X-RateLimit-Reset a number of seconds from now. Default is seconds since 1970.
	ResetDelta bool
	// Jitter is the upper bound of a random time that is added to Retry-After. It spreads the retries of clients that are
	// denied at the same time. At most MaxJitter. Default 0: nothing is added.
	Jitter time.Duration
}

// Validate returns an error if the Fields are invalid.
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

// Append appends the fields for a verdict to dst, for programs that use an engine without this package's middleware.
// retryAfter is the result of Fields.RetryAfter, and now is the current time.
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

// RetryAfter returns the time after which a denied client should retry, including Jitter. It returns 0 if the request
// is allowed, or can never be allowed.
func (f *Fields) RetryAfter(v *engine.Verdict) time.Duration {
	if v.Action != engine.Reject || v.RetryAfter == headgate.Never {
		return 0
	}
	wait := v.RetryAfter
	if f.Jitter > 0 {
		wait += rand.N(f.Jitter + 1)
	}
	return max(wait, time.Microsecond) // 0 would mean that the request can never be allowed
}

// setValues sets the values for a verdict. It builds them in buf and copies them into one string, so that they need one
// allocation. It returns buf for reuse.
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

// A fieldText builds fields in one buffer: either only their values, one after another, or complete header lines.
type fieldText struct {
	buf       []byte
	lines     bool                                     // write complete header lines
	positions [numVerdictFields]struct{ from, to int } // of the values in buf
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

func (t *fieldText) writeNumber(field int, n int64) {
	t.begin(field)
	t.buf = strconv.AppendInt(t.buf, n, 10)
	t.end(field)
}

// writeAll writes all fields for a verdict.
func (f *Fields) writeAll(t *fieldText, v *engine.Verdict, retryAfter int64, now time.Time) {
	if retryAfter > 0 {
		t.writeNumber(fieldRetryAfter, retryAfter)
	}
	if !anyReported(v) {
		return
	}
	tightestIndex := tightest(v)
	if !f.NoRateLimit {
		t.begin(fieldPolicy)
		t.writePolicies(v)
		t.end(fieldPolicy)
		if tightestIndex >= 0 {
			t.begin(fieldRateLimit)
			t.writeStates(v, retryAfter)
			t.end(fieldRateLimit)
		}
	}
	if tightestIndex < 0 || f.NoXRateLimit {
		return
	}
	d := v.LimitAt(tightestIndex).Decision
	t.writeNumber(fieldLimit, d.Limit)
	t.writeNumber(fieldRemaining, max(d.Remaining, 0))
	t.writeNumber(fieldReset, f.reset(d, now))
}

// reset returns the value of X-RateLimit-Reset.
func (f *Fields) reset(d *headgate.Decision, now time.Time) int64 {
	if f.ResetDelta {
		return wholeSeconds(d.ResetAfter)
	}
	return resetAt(d, now)
}

// isReported reports whether a limit is reported to clients: it was checked, and its rule is not in shadow mode.
func isReported(l *engine.LimitView) bool { return !l.Shadow && l.Decision.Limit > 0 }

// anyReported reports whether any limit is reported.
func anyReported(v *engine.Verdict) bool {
	for i := range v.LimitCount() {
		if l := v.LimitAt(i); isReported(&l) {
			return true
		}
	}
	return false
}

// hasState reports whether a limit is reported together with its remaining units, which are unknown if the store was
// unreachable.
func hasState(l *engine.LimitView) bool { return isReported(l) && !l.Decision.Degraded }

// limitOf returns the limit that a decision was made for.
func limitOf(l *engine.LimitView) *headgate.Limit { return &l.Matched.Limit(l.Limit).Limit }

// writePolicies writes the value of RateLimit-Policy.
func (t *fieldText) writePolicies(v *engine.Verdict) {
	start := len(t.buf)
	for i := range v.LimitCount() {
		l := v.LimitAt(i)
		if !isReported(&l) {
			continue
		}
		if len(t.buf) > start {
			t.buf = append(t.buf, ", "...)
		}
		t.buf = appendName(t.buf, l.Matched, l.Limit, hasSeveral(v, i))
		t.buf = appendQuota(t.buf, limitOf(&l))
	}
}

// writeStates writes the value of RateLimit.
func (t *fieldText) writeStates(v *engine.Verdict, retryAfter int64) {
	start := len(t.buf)
	for i := range v.LimitCount() {
		l := v.LimitAt(i)
		if !hasState(&l) {
			continue
		}
		if len(t.buf) > start {
			t.buf = append(t.buf, ", "...)
		}
		t.buf = appendName(t.buf, l.Matched, l.Limit, hasSeveral(v, i))
		t.buf = appendState(t.buf, &l, retryAfter)
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

// appendState appends the remaining units of a limit, and the seconds until more units are available.
func appendState(dst []byte, l *engine.LimitView, retryAfter int64) []byte {
	d := l.Decision
	dst = append(dst, ";r="...)
	dst = strconv.AppendInt(dst, max(d.Remaining, 0), 10)
	until, known := untilMore(limitOf(l), d)
	if !known {
		return dst
	}
	seconds := wholeSeconds(until)
	if retryAfter > 0 {
		seconds = min(seconds, retryAfter) // clients wait for t, and must not wait for longer than Retry-After
	}
	dst = append(dst, ";t="...)
	return strconv.AppendInt(dst, seconds, 10)
}

// resetAt returns when a limit is fully restored, in seconds since 1970, rounded up.
func resetAt(d *headgate.Decision, now time.Time) int64 {
	at := now.Add(max(d.ResetAfter, 0))
	if at.Nanosecond() > 0 {
		return at.Unix() + 1
	}
	return at.Unix()
}

// PolicyName returns the name of a verdict's limit in RateLimit-Policy, given its index in Verdict.Limits.
func PolicyName(limits []engine.Applied, i int) string {
	rule := limits[i].Rule
	if i > 0 && limits[i-1].Rule == rule || i+1 < len(limits) && limits[i+1].Rule == rule {
		return rule.ID + "/" + limits[i].Name
	}
	return rule.ID
}

// hasSeveral reports whether other limits of the rule of limit i apply. The limits of a rule are adjacent.
func hasSeveral(v *engine.Verdict, i int) bool {
	m := v.LimitAt(i).Matched
	return i > 0 && v.LimitAt(i-1).Matched == m || i+1 < v.LimitCount() && v.LimitAt(i+1).Matched == m
}

// tightest returns the index of the limit that X-RateLimit reports: the denial with the longest RetryAfter or, without
// a denial, the limit with the fewest remaining units. It returns -1 if the state of all limits is unknown.
func tightest(v *engine.Verdict) int {
	var found *headgate.Decision
	index := -1
	for i := range v.LimitCount() {
		l := v.LimitAt(i)
		if hasState(&l) && (found == nil || l.Decision.TighterThan(found)) {
			found, index = l.Decision, i
		}
	}
	return index
}
