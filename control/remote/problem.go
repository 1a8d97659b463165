package remote

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// An Error is what the service says when it refuses a call (RFC 9457).
type Error struct {
	Status int    `json:"status"`
	Type   string `json:"type,omitempty"`
	Title  string `json:"title,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Errors are the places of what is wrong with what was sent.
	Errors []Place `json:"errors,omitempty"`
	// Diff and Current, when somebody else was faster, are what differs, and what is there now.
	Diff    string          `json:"diff,omitempty"`
	Current json.RawMessage `json:"current,omitempty"`
	// RetryAfter is when to come back, if it says so.
	RetryAfter time.Duration `json:"-"`
}

// A Place is one thing that is wrong.
type Place struct {
	Path   string `json:"path"`
	Value  string `json:"value,omitempty"`
	Want   string `json:"want,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the rules service says %d", e.Status)
	switch {
	case e.Detail != "":
		b.WriteString(": " + e.Detail)
	case e.Title != "":
		b.WriteString(": " + e.Title)
	}
	for i := range e.Errors {
		b.WriteString("\n  " + e.Errors[i].String())
	}
	return b.String()
}

func (p *Place) String() string {
	var parts []string
	for _, part := range []string{p.Path, p.Value} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if p.Want != "" {
		parts = append(parts, "want "+p.Want)
	}
	text := strings.Join(parts, ": ")
	if p.Line > 0 {
		text = "line " + strconv.Itoa(p.Line) + ": " + text
	}
	return text
}

// readProblem returns what an answer says that is none of success.
func readProblem(answer *http.Response) error {
	e := &Error{}
	media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	body, readErr := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	if err != nil || readErr != nil || media != "application/problem+json" || json.Unmarshal(body, e) != nil {
		*e = Error{Title: http.StatusText(answer.StatusCode)}
	}
	e.Status = answer.StatusCode
	if seconds, err := strconv.ParseInt(answer.Header.Get("Retry-After"), 10, 32); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
