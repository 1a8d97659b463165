package remote

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/control/edit"
)

// An Error is the service's response to a refused call (RFC 9457).
type Error struct {
	Status int    `json:"status"`
	Type   string `json:"type,omitempty"`
	Title  string `json:"title,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Errors are the problems of the request's content.
	Errors []source.Problem `json:"errors,omitempty"`
	// If another caller has changed the object, Current is the current object, and Diff the difference to the new one.
	Diff    string          `json:"diff,omitempty"`
	Current json.RawMessage `json:"current,omitempty"`
	// Import is the progress of a failed import, nil if it changed nothing.
	Import *edit.Imported `json:"import,omitempty"`
	// RetryAfter is the time after which to retry, 0 if the response does not have it.
	RetryAfter time.Duration `json:"-"`
}

// NoService begins the detail of an Error of a node that takes its rules from another rules service.
const NoService = "This node has no rules service of its own."

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the rules service says %d", e.Status)
	if text := e.summary(); text != "" {
		b.WriteString(": " + text)
	}
	for _, p := range e.Errors {
		b.WriteString("\n  ")
		if p.Line > 0 {
			fmt.Fprintf(&b, "line %d: ", p.Line)
		}
		b.WriteString(strings.TrimSuffix(p.String(), ": want ")) // a problem without Want has this end
	}
	if i := e.Import; i != nil {
		fmt.Fprintf(&b, "\n  done before it: %d clients: created %d, updated %d, deleted %d, unchanged %d; revision %d",
			i.Clients, i.Created, i.Updated, i.Deleted, i.Unchanged, i.Revision)
	}
	return b.String()
}

// summary returns the message without the listed problems.
func (e *Error) summary() string {
	text := cmp.Or(e.Detail, e.Title)
	if len(e.Errors) == 1 {
		text = strings.Replace(text, ": "+e.Errors[0].String(), "", 1)
	}
	if e.Import != nil {
		text = strings.TrimSuffix(text, " Earlier lines are imported: see import.")
	}
	return text
}

// maxLine is the maximum number of bytes that oneLine returns.
const maxLine = 200

// oneLine returns the first line of a body that is plain text. It returns "" if the line is long, not printable, or
// HTML.
func oneLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	if len(line) > maxLine || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) ||
		strings.HasPrefix(line, "<") {
		return ""
	}
	return line
}

// readProblem returns the error of a failed response.
func readProblem(response *http.Response) error {
	e := &Error{}
	media, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	body, readErr := io.ReadAll(io.LimitReader(response.Body, maxProblem))
	if err != nil || readErr != nil || media != "application/problem+json" || json.Unmarshal(body, e) != nil {
		*e = Error{Title: http.StatusText(response.StatusCode)}
		// Another server has responded, or a server that expects TLS.
		if readErr == nil && media == "text/plain" || err != nil {
			e.Detail = oneLine(body)
		}
	}
	e.Status = response.StatusCode
	if seconds, err := strconv.ParseInt(response.Header.Get("Retry-After"), 10, 32); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
