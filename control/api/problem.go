package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/source"
)

// A problem is why a call failed (RFC 9457). It is the error that handlers return for what is the caller's to know.
type problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Errors []fieldError `json:"errors,omitempty"`
	// More is how many errors there are beside those.
	More int `json:"more,omitempty"`
	// Current is what is there instead of what the caller thought, Diff how that differs from what he sent.
	Current any     `json:"current,omitempty"`
	Diff    *string `json:"diff,omitempty"`
	// Import is how far an import had come.
	Import *imported `json:"import,omitempty"`

	retryAfter time.Duration
}

// A fieldError is one thing that is wrong with what was sent.
type fieldError struct {
	Path   string `json:"path"`
	Value  string `json:"value,omitempty"`
	Want   string `json:"want"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

func (p *problem) Error() string { return p.Detail }

// instead says what is there, and how that differs from what the caller sent.
func (p *problem) instead(o *control.Object, sent []byte) *problem {
	text := unified(o.Kind, o.ID, o.Body, sent)
	p.Current, p.Diff = itemOf(o), &text
	return p
}

// fail returns a problem.
func fail(status int, format string, args ...any) *problem {
	return &problem{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// invalid returns the problem of what is wrong with fields.
func invalid(errs []fieldError, more int) *problem {
	p := fail(http.StatusUnprocessableEntity, "%d things are wrong with it.", len(errs)+more)
	if len(errs)+more == 1 {
		p.Detail = "One thing is wrong with it: " + errs[0].String() + "."
	}
	p.Errors, p.More = errs, more
	return p
}

func (e fieldError) String() string {
	text := e.Path
	if e.Value != "" {
		if text != "" {
			text += ": "
		}
		text += e.Value
	}
	if text != "" {
		text += ": "
	}
	return text + "want " + e.Want
}

// wrongQuery returns the problem of a parameter of the address.
func wrongQuery(name, value, want string) *problem {
	p := fail(http.StatusBadRequest, "%s=%s: want %s.", name, rules.Quote(value), want)
	p.Errors = []fieldError{{Path: "?" + name, Value: rules.Quote(value), Want: want}}
	return p
}

// problemOf says what an error means to who called. Fault tells that it is for the log, too.
func problemOf(err error) (p *problem, fault bool) {
	var given *problem
	var file *source.Error
	var wrong *rules.Error
	var input *headgate.InputError
	var conflict *control.Conflict
	switch {
	case errors.As(err, &given):
		return given, false
	case errors.As(err, &file):
		return invalid(fieldErrors(file), file.More), false
	case errors.As(err, &wrong):
		return invalid(ruleErrors(wrong), wrong.More), false
	case errors.As(err, &input):
		p := fail(http.StatusUnprocessableEntity, "%s", input.Error())
		p.Errors = []fieldError{{Path: input.Field, Value: input.Value, Want: input.Want}}
		return p, false
	case errors.As(err, &conflict):
		return fail(http.StatusPreconditionFailed, "Somebody else was faster: %s.", conflict.Error()), false
	case errors.Is(err, control.ErrNotFound):
		return fail(http.StatusNotFound, "There is no such thing."), false
	case errors.Is(err, control.ErrInvalid):
		return fail(http.StatusUnprocessableEntity, "%v.", err), false
	case errors.Is(err, control.ErrPruned):
		return fail(http.StatusGone, "The log does not reach back that far."), false
	case errors.Is(err, control.ErrNotEmpty):
		return fail(http.StatusConflict, "The database is not as new: somebody has made something in it. ?replace, as headgate restore --replace, gives that up for the backup; headgate restore --db fills a new one."), false
	case errors.Is(err, control.ErrFull):
		return fail(http.StatusInsufficientStorage, "The database has no room: nothing was changed. Rules in force stay. An operator has to %s.", control.Remedy(err)), true
	case errors.Is(err, control.ErrFileGone):
		return fail(http.StatusServiceUnavailable, "The file of the database was removed or replaced while it was open: nothing was changed. "+
			"Rules in force stay. An operator has to %s.", control.Remedy(err)), false // control.Monitor logs it once
	case errors.Is(err, control.ErrUnwritable):
		return fail(http.StatusServiceUnavailable, "The database cannot be written: nothing was changed. Rules in force stay. "+
			"An operator has to %s; the log says more.", control.Remedy(err)), false
	case errors.Is(err, context.Canceled):
		return fail(499, "The caller has gone."), false
	default:
		p := fail(http.StatusServiceUnavailable, "The database could not be asked; the log says why.")
		p.retryAfter = time.Second
		return p, true
	}
}

// fieldErrors returns what is wrong with a file.
func fieldErrors(e *source.Error) []fieldError {
	list := make([]fieldError, len(e.Problems))
	for i, p := range e.Problems {
		list[i] = fieldError{Path: p.Path, Value: p.Value, Want: p.Want, Line: p.Line, Column: p.Column}
	}
	return list
}

// ruleErrors returns what is wrong with rules.
func ruleErrors(e *rules.Error) []fieldError {
	list := make([]fieldError, len(e.Problems))
	for i, p := range e.Problems {
		list[i] = fieldError{Path: p.Path, Value: p.Value, Want: p.Want}
		if p.Other != "" {
			list[i].Want += "; " + p.Other + " has this one"
		}
	}
	return list
}

// answer sends the problem.
func (p *problem) answer(w http.ResponseWriter) {
	h := w.Header()
	h.Del("ETag")
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((p.retryAfter+time.Second-1)/time.Second), 10))
	}
	p.Type = "about:blank"
	if p.Title = http.StatusText(p.Status); p.Title == "" {
		p.Title = "Client Closed Request"
	}
	w.WriteHeader(p.Status)
	_ = encode(w, p) // a caller that is gone has no use for it
}

// encode writes JSON as it is meant to be read by programs and people.
func encode(w interface{ Write([]byte) (int, error) }, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
