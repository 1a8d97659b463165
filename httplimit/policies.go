package httplimit

import (
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// policies caches the parts of header fields that do not depend on counters, by the limits that apply to a request:
// mostly they are the same few. It holds a fixed number of combinations, and only of limits of rules themselves;
// overrides and clients may have any number. It is safe for concurrent use, and a nil cache is empty.
type policies [256]atomic.Pointer[policyTexts]

// maxCached is the largest number of limits in a cached combination.
const maxCached = 6

// policyTexts are the cached texts of a combination.
type policyTexts struct {
	limits [maxCached]*rules.Limit // nil from the last on
	items  string                  // the value of RateLimit-Policy
	states [maxCached]string       // the beginning of each in RateLimit, with a comma if it is not the first: "search";r=
	quick  [maxCached]bool         // see isQuick

	// The same as header lines.
	head       string            // RateLimit-Policy, and RateLimit up to the first state
	x          [maxCached]string // X-RateLimit-Limit of each, and X-RateLimit-Remaining without its value
	capacities [maxCached]int64  // the values of X-RateLimit-Limit
}

// of returns the cached texts for the limits of a verdict, and caches them if they are new; nil if they cannot be
// cached.
func (p *policies) of(v *engine.Verdict) *policyTexts {
	n := v.Asked()
	if p == nil || n == 0 || n > maxCached {
		return nil
	}
	var limits [maxCached]*rules.Limit
	hash := uintptr(0)
	for i := range n {
		a := v.At(i)
		if !isReported(&a) {
			return nil
		}
		limit := a.Matched.Limit(a.Limit)
		limits[i%maxCached] = limit
		hash = hash*31 + uintptr(unsafe.Pointer(limit))/unsafe.Sizeof(*limit)
	}
	place := &p[hash%uintptr(len(p))]
	if known := place.Load(); known != nil && known.limits == limits {
		return known
	}
	for i := range n {
		if m := v.At(i).Matched; len(m.Rule.Limits) == 0 || &m.Limits[0] != &m.Rule.Limits[0] {
			return nil
		}
	}
	made := newPolicyTexts(v)
	made.limits = limits
	place.Store(made)
	return made
}

func newPolicyTexts(v *engine.Verdict) *policyTexts {
	made := &policyTexts{}
	t := fieldText{}
	t.policies(v)
	made.items = string(t.buf)
	for i := range v.Asked() {
		var state []byte
		if i > 0 {
			state = append(state, listMark...)
		}
		a := v.At(i)
		state = appendName(state, a.Matched, a.Limit, hasSeveral(v, i))
		made.states[i] = string(append(state, stateMark...))
		l := &a.Matched.Limit(a.Limit).Limit
		made.quick[i], made.capacities[i] = isQuick(l), l.Capacity()
		made.x[i] = "\r\n" + fieldNames[fieldLimit] + ": " + strconv.FormatInt(made.capacities[i], 10) +
			"\r\n" + fieldNames[fieldRemaining] + ": "
	}
	made.head = fieldNames[fieldPolicy] + ": " + made.items + "\r\n" + fieldNames[fieldRateLimit] + ": " + made.states[0]
	return made
}

// appendLines appends the header lines for a verdict that allows, like Fields.writeAll in both dialects. It returns
// false, and appends nothing, if the cached texts are not sufficient.
func (p *policyTexts) appendLines(dst []byte, v *engine.Verdict, now time.Time) ([]byte, bool) {
	if v.Degraded {
		return dst, false
	}
	// All of them allow, so the tightest is the one with the least remaining.
	before := len(dst)
	dst = append(dst, p.head...)
	tight, d := 0, (*headgate.Decision)(nil)
	for i := range v.Asked() {
		a := v.At(i)
		if i > 0 {
			dst = append(dst, p.states[i%maxCached]...)
		}
		dst = appendState(dst, &a, p.quick[i%maxCached], 0)
		if d == nil || a.Decision.Remaining < d.Remaining {
			tight, d = i, a.Decision
		}
	}
	if d.Limit != p.capacities[tight%maxCached] {
		return dst[:before], false
	}
	dst = append(dst, p.x[tight%maxCached]...)
	dst = strconv.AppendInt(dst, max(d.Remaining, 0), 10)
	dst = append(dst, lineOfReset...)
	dst = strconv.AppendInt(dst, resetAt(d, now), 10)
	return append(dst, "\r\n"...), true
}

const lineOfReset = "\r\nX-Ratelimit-Reset: "

const (
	listMark  = ", "
	stateMark = ";r=" // between the name of a policy and its rest
)

// appendName appends the name of a limit's policy: that of its rule and, if several of its limits apply, of the limit.
func appendName(dst []byte, m *match.Result, limit int, several bool) []byte {
	dst = append(dst, '"')
	dst = appendWithin(dst, m.Rule.ID)
	if several {
		dst = append(dst, '/')
		dst = appendWithin(dst, m.LimitName(limit))
	}
	return append(dst, '"')
}

// appendQuota appends the count and the window of a policy.
func appendQuota(dst []byte, l *headgate.Limit) []byte {
	dst = append(dst, ";q="...)
	dst = strconv.AppendInt(dst, l.Count, 10)
	if w := l.Period; w > 0 && w%time.Second == 0 {
		dst = append(dst, ";w="...)
		dst = strconv.AppendInt(dst, int64(w/time.Second), 10)
	}
	return dst
}
