package identity

import (
	"errors"
	"strconv"

	"github.com/headgate/headgate"
)

// ErrMalformed is wrapped by every complaint about a request, and is a [*RequestError].
var ErrMalformed = errors.New("malformed request")

// A RequestError says what of a request could be read in more than one way, or in none. Its answer is 400 Bad Request.
type RequestError struct {
	// Part is what is wrong, such as "host".
	Part string
	// Value is what was sent, shortened if it is long. It is empty for what is secret.
	Value string
	// Want says what would be right.
	Want string
}

func (e *RequestError) Error() string {
	text := ErrMalformed.Error() + ": " + e.Part
	if e.Value != "" {
		text += " " + e.Value
	}
	return text + ": want " + e.Want
}

// Unwrap returns ErrMalformed.
func (e *RequestError) Unwrap() error { return ErrMalformed }

func malformed(part, value, want string) error {
	return &RequestError{Part: part, Value: value, Want: want}
}

// badValue complains of what someone says in Values.
func badValue(field, value, want string) error {
	return &headgate.InputError{Err: headgate.ErrInvalidCheck, Field: field, Value: value, Want: want}
}

// asInput makes a complaint about a request one about Values.
func asInput(err error) error {
	var request *RequestError
	if errors.As(err, &request) {
		return badValue(request.Part, request.Value, request.Want)
	}
	return err
}

// quote shows a value in an error without letting a long one flood the log.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(s[:most]) + "… (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.Quote(s)
}
