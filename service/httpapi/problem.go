package httpapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
)

// A problem is what is wrong with a call, or why a request is denied (RFC 9457).
type problem struct {
	kind, title  string // what the status says, if they are empty
	status       int
	detail       string
	line, column int              // in the body; 0 if that is not the place
	limits       []engine.Applied // of which those that deny are named
}

// The types of problems besides that of the status itself.
const (
	problemQuota    = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	problemCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// answer sends the problem.
func (p problem) answer(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"] = problemType
	h["Cache-Control"] = noStore
	w.WriteHeader(p.status)
	_, _ = w.Write(append(p.append(nil), '\n')) // a caller that is gone has no use for it
}

// append appends the problem as JSON.
func (p *problem) append(dst []byte) []byte {
	dst = append(dst, `{"type":`...)
	dst = appendString(dst, cmp.Or(p.kind, "about:blank"))
	dst = append(dst, `,"title":`...)
	dst = appendString(dst, cmp.Or(p.title, http.StatusText(p.status)))
	dst = append(dst, `,"status":`...)
	dst = strconv.AppendInt(dst, int64(p.status), 10)
	dst = append(dst, `,"detail":`...)
	dst = appendString(dst, p.detail)
	if p.line > 0 {
		dst = append(dst, `,"line":`...)
		dst = strconv.AppendInt(dst, int64(p.line), 10)
		dst = append(dst, `,"column":`...)
		dst = strconv.AppendInt(dst, int64(p.column), 10)
	}
	begin := `,"violated-policies":[`
	for i := range p.limits {
		if a := &p.limits[i]; a.Shadow || a.Decision.Limit == 0 || a.Decision.Allowed {
			continue
		}
		dst = append(dst, begin...)
		dst = appendString(dst, httplimit.PolicyName(p.limits, i))
		begin = ","
	}
	if begin == "," {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// problemOfDenial returns what clients are told of a denial, as httplimit tells them.
func problemOfDenial(v *engine.Verdict, status int, retryAfter time.Duration) problem {
	p := problem{status: status}
	switch v.Reason {
	case engine.Blocked:
		p.detail = "Blocked."
	case engine.Unidentified:
		p.detail = "The request does not say who is asking."
	case engine.Unregistered:
		p.detail = "The client is not registered."
	case engine.QueueFull:
		p.kind, p.title, p.detail = problemCapacity, "Temporarily reduced capacity", "Too many requests are waiting already."
	case engine.StoreFailed:
		p.kind, p.title, p.detail = problemCapacity, "Temporarily reduced capacity", "The limits cannot be checked right now."
	default:
		p.kind, p.title, p.detail, p.limits = problemQuota, "Quota exceeded", "Over the limit.", v.Limits()
		if v.RetryAfter == headgate.Never {
			p.detail = "The request costs more than the limit can ever grant."
		}
	}
	if retryAfter > 0 {
		p.detail += " Try again in " + strconv.FormatInt(int64((retryAfter-1)/time.Second)+1, 10) + " s."
	}
	return p
}

// badBody returns the problem of a body that cannot be read.
func badBody(text string, err error) problem {
	p := problem{status: http.StatusBadRequest, detail: err.Error()}
	var at *jsonError
	if errors.As(err, &at) {
		p.line, p.column = place(text, at.at)
		p.detail = fmt.Sprintf("%d:%d: %s", p.line, p.column, at.Error())
	}
	return p
}

// problemOf returns the problem of a decision that could not be made.
func problemOf(err error) (p problem, fault bool) {
	var input *headgate.InputError
	switch {
	case errors.Is(err, engine.ErrNoRule):
		return problem{status: http.StatusNotFound, detail: strings.TrimPrefix(err.Error(), "engine: ")}, false
	case errors.As(err, &input):
		return problem{status: http.StatusBadRequest, detail: strings.TrimPrefix(err.Error(), input.Err.Error()+": ")}, false
	case errors.Is(err, engine.ErrLease):
		return problem{status: http.StatusBadRequest, detail: "no such lease: want the leaseId of a decision"}, false
	default:
		return problem{status: http.StatusInternalServerError, detail: "The decision could not be made."}, true
	}
}

// appendString appends a string of JSON. What is not UTF-8 becomes a replacement character.
func appendString(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x7f: // for who shows it as HTML all the same
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&0xf])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		i++
	}
	return append(dst, '"')
}

// quiet lets one thing be said in a while.
type quiet struct{ last atomic.Int64 }

// now tells whether it is time to say it again.
func (q *quiet) now(at time.Time, every time.Duration) bool {
	now, before := at.UnixNano(), q.last.Load()
	return (before == 0 || now-before >= int64(every) || now < before) && q.last.CompareAndSwap(before, now)
}
