package identity

import (
	"errors"
	"strconv"

	"github.com/headgate/headgate"
)

// ErrMalformed is wrapped by every [*RequestError].
var ErrMalformed = errors.New("malformed request")

// A RequestError describes a part of a request that is invalid or ambiguous. The response is 400 Bad Request.
type RequestError struct {
	// Part is the invalid part, such as "host".
	Part string
	// Value is the invalid value, shortened if it is long. It is empty if the value is secret.
	Value string
	// Want describes valid values.
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

// badValue returns an error about a field of Values.
func badValue(field, value, want string) error {
	return &headgate.InputError{Err: headgate.ErrInvalidCheck, Field: field, Value: value, Want: want}
}

// asInputError converts a *RequestError to an error about Values.
func asInputError(err error) error {
	var request *RequestError
	if errors.As(err, &request) {
		return badValue(request.Part, request.Value, request.Want)
	}
	return err
}

// quote quotes a value for an error message, and shortens a long one.
func quote(s string) string {
	const maxShown = 64
	if len(s) > maxShown {
		return strconv.Quote(s[:maxShown]) + "… (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.Quote(s)
}
