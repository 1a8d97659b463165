// Package problem describes failed HTTP calls as problem details (RFC 9457).
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// An Error has the problem details of a failed call. Handlers return it as their error.
type Error struct {
	Type   string  `json:"type"`
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail"`
	Fields []Field `json:"errors,omitempty"`
	// More is the number of invalid fields that are not listed.
	More int `json:"more,omitempty"`
	// Current is the stored object, if it does not have the revision that the caller expects. Diff is the difference
	// between it and the object in the request.
	Current any     `json:"current,omitempty"`
	Diff    *string `json:"diff,omitempty"`
	// Import is the progress of a failed import: the part that is committed.
	Import any `json:"import,omitempty"`
	// RetryAfter is sent in the header Retry-After.
	RetryAfter time.Duration `json:"-"`
}

// A Field is an invalid field of a request. It has the fields of source.Problem.
type Field struct {
	Path   string `json:"path"`
	Value  string `json:"value,omitempty"`
	Want   string `json:"want"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

func (e *Error) Error() string { return e.Detail }

// New returns an error with an HTTP status and a detail of one or more sentences.
func New(status int, format string, args ...any) *Error {
	return &Error{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// Invalid returns the error of a request with invalid fields. more is the number of invalid fields that are not in the
// list.
func Invalid(fields []source.Problem, more int) *Error {
	e := New(http.StatusUnprocessableEntity, "The request has %d problems.", len(fields)+more)
	if len(fields)+more == 1 {
		e.Detail = "The request has a problem: " + fields[0].String() + "."
	}
	for _, field := range fields {
		e.Fields = append(e.Fields, Field(field))
	}
	e.More = more
	return e
}

// InvalidField returns the error of a request with one invalid field.
func InvalidField(path, value, want string) *Error {
	return Invalid([]source.Problem{{Path: path, Value: value, Want: want}}, 0)
}

// InvalidInput converts a *headgate.InputError about the value at a path of the request.
func InvalidInput(path string, err error) *Error {
	var input *headgate.InputError
	if !errors.As(err, &input) {
		return InvalidField(path, "", err.Error())
	}
	if path == "attributes" {
		if name, err := strconv.Unquote(input.Value); err == nil && input.Field == "attribute" {
			return InvalidField("attributes."+name, "unknown attribute", input.Want)
		}
		path = "attributes." + input.Field
	}
	return InvalidField(path, input.Value, input.Want)
}

// InvalidQuery returns the error of an invalid query parameter.
func InvalidQuery(name, value, want string) *Error {
	e := New(http.StatusBadRequest, "%s=%s: want %s.", name, rules.Quote(value), want)
	e.Fields = []Field{{Path: "?" + name, Value: rules.Quote(value), Want: want}}
	return e
}

// StatusClientClosed is the status of a call whose caller has disconnected.
const StatusClientClosed = 499

// Write sends the error as a response.
func (e *Error) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Del("ETag")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	e.Type, e.Title = "about:blank", http.StatusText(e.Status)
	if e.Status == StatusClientClosed {
		e.Title = "Client Closed Request"
	}
	w.WriteHeader(e.Status)
	_ = Encode(w, e) // fails only if the caller has disconnected
}

// Encode writes a value as JSON, without escapes for HTML.
func Encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
