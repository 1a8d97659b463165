package service

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Hold extends the deadlines of the connection, so that the response can be sent after delay. It must be called after
// the whole request was read, because it also extends the deadline for reading.
func Hold(w http.ResponseWriter, delay time.Duration) {
	deadline := time.Now().Add(delay + defaultWriteTimeout)
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(deadline) // an error means that w has no deadlines, so there is nothing to extend
	_ = c.SetWriteDeadline(deadline)
}

// WithHold returns a handler that calls next. After the whole request was read, next may delay its response for up to
// maxDelay.
func WithHold(next http.Handler, maxDelay time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			Hold(w, maxDelay)
		} else {
			r.Body = &holdingBody{ReadCloser: r.Body, w: w, maxDelay: maxDelay}
		}
		next.ServeHTTP(w, r)
	})
}

// A holdingBody calls Hold at the end of the body.
type holdingBody struct {
	io.ReadCloser
	w        http.ResponseWriter
	maxDelay time.Duration
}

func (b *holdingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		Hold(b.w, b.maxDelay)
	}
	return n, err
}
