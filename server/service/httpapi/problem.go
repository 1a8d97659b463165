package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
)

// A problem describes a failed call (RFC 9457).
type problem struct {
	status       int
	detail       string
	line, column int // position in the body; 0 if the problem is not in the body
}

// fail responds to a failed call.
func fail(w http.ResponseWriter, status int, detail string) {
	problem{status: status, detail: detail}.respond(w)
}

// respond sends the problem.
func (p problem) respond(w http.ResponseWriter) {
	respondProblem(w, p.status, append(p.append(nil), '\n'))
}

func respondProblem(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h["Content-Type"] = problemType
	h["Cache-Control"] = noStore
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the caller has disconnected
}

// append appends the problem as JSON.
func (p *problem) append(dst []byte) []byte {
	dst = append(dst, `{"type":"about:blank","title":`...)
	dst = appendString(dst, http.StatusText(p.status))
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
	return append(dst, '}')
}

// badBody returns the problem of a body that cannot be parsed.
func badBody(text string, err error) problem {
	p := problem{status: http.StatusBadRequest, detail: err.Error()}
	var bad *jsonError
	if errors.As(err, &bad) {
		p.line, p.column = position(text, bad.pos)
		p.detail = fmt.Sprintf("%d:%d: %s", p.line, p.column, bad.Error())
	}
	return p
}

// problemOf returns the problem for a failed decision. fault means that the error is internal and must be logged.
func problemOf(err error) (p problem, fault bool) {
	var input *headgate.InputError
	switch {
	case errors.Is(err, engine.ErrNoRule):
		return problem{status: http.StatusNotFound, detail: strings.TrimPrefix(err.Error(), "engine: ")}, false
	case errors.As(err, &input):
		return problem{status: http.StatusBadRequest, detail: strings.TrimPrefix(err.Error(), input.Err.Error()+": ")}, false
	case errors.Is(err, engine.ErrLease):
		return problem{status: http.StatusBadRequest, detail: "invalid lease: want the leaseId of a decision"}, false
	default:
		return problem{status: http.StatusInternalServerError, detail: "The decision could not be made."}, true
	}
}

// appendString appends a JSON string. Invalid UTF-8 becomes a replacement character.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s)
			if err != nil { // strings can always be encoded
				panic(err)
			}
			return append(dst, text...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}
