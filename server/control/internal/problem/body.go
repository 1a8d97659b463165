package problem

import (
	"errors"
	"io"
	"net/http"
)

// ReadBody reads the body of a request. The error has status 413 if the body is longer than limit bytes, and 400 if it
// could not be received.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, *Error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, New(http.StatusRequestEntityTooLarge, "The body is longer than %d bytes.", limit)
	case err != nil:
		return nil, New(http.StatusBadRequest, "The body could not be received: %v.", err)
	}
	return body, nil
}
