package httplimit

import (
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
)

// The types of the problems that the middleware sends (RFC 9457).
const (
	problemQuota    = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	problemCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	problemPlain    = "about:blank" // the status explains the problem
)

const (
	problemJSON = "application/problem+json"
	noStore     = "no-store"
)

// A problem is the body of a denial.
type problem struct {
	kind, title, detail string
	status              int
}

// problemOf returns the problem for a denial.
func problemOf(v *engine.Verdict) problem {
	p := problem{status: v.Status, kind: problemPlain, title: http.StatusText(v.Status)}
	switch v.Reason {
	case engine.Blocked:
		p.detail = "Blocked."
	case engine.Unidentified:
		p.detail = "The request does not identify its client."
		if v.Status == http.StatusBadRequest {
			p.detail = "The attributes that identify the client are ambiguous."
		}
	case engine.Unregistered:
		p.detail = "The client is not registered."
	case engine.QueueFull:
		p.kind, p.title, p.detail = problemCapacity, "Temporarily reduced capacity", "Too many requests are waiting."
	case engine.StoreFailed:
		p.kind, p.title, p.detail = problemCapacity, "Temporarily reduced capacity", "The limits cannot be checked right now."
	case engine.Overloaded:
		p.kind, p.title, p.detail = problemCapacity, "Temporarily reduced capacity", "Too many requests arrived at once."
	default:
		p.kind, p.title, p.detail = problemQuota, "Quota exceeded", "Over the limit."
		if v.RetryAfter == headgate.Never {
			p.detail = "The request costs more than the limit can ever grant."
		}
	}
	return p
}

// AppendProblem appends the body of a denial with the given status: a problem (RFC 9457) in JSON and a newline.
// retryAfter is the result of [Fields.RetryAfter].
func AppendProblem(dst []byte, v *engine.Verdict, status int, retryAfter time.Duration) []byte {
	p := problemOf(v)
	p.status = status
	if p.kind == problemPlain {
		p.title = http.StatusText(status)
	}
	return p.append(dst, v, wholeSeconds(retryAfter))
}

// append appends the problem as JSON. If v is not nil, it includes the names of the violated policies.
func (p *problem) append(dst []byte, v *engine.Verdict, retryAfter int64) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, p.kind...)
	dst = append(dst, `","title":"`...)
	dst = append(dst, p.title...)
	dst = append(dst, `","status":`...)
	dst = strconv.AppendInt(dst, int64(p.status), 10)
	dst = append(dst, `,"detail":"`...)
	dst = appendJSON(dst, p.detail)
	if retryAfter > 0 {
		dst = append(dst, " Try again in "...)
		dst = strconv.AppendInt(dst, retryAfter, 10)
		dst = append(dst, " s."...)
	}
	dst = append(dst, '"')
	first, limits := true, 0
	if v != nil {
		limits = v.LimitCount()
	}
	for i := range limits {
		l := v.LimitAt(i)
		if !isReported(&l) || l.Decision.Allowed {
			continue
		}
		if first {
			dst = append(dst, `,"violated-policies":[`...)
		} else {
			dst = append(dst, ',')
		}
		first = false
		dst = appendName(dst, l.Matched, l.Limit, hasSeveral(v, i))
	}
	if !first {
		dst = append(dst, ']')
	}
	return append(dst, "}\n"...)
}
