package service

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Hold extends the server's deadlines for a response that is delayed. The request must have been read.
func Hold(w http.ResponseWriter, hold time.Duration) {
	until := time.Now().Add(hold + defaultWriteTimeout)
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(until) // without deadlines there is nothing to extend
	_ = c.SetWriteDeadline(until)
}

// WithHold returns a handler that lets next delay its response for up to maxDelay after it has read the whole request.
func WithHold(next http.Handler, maxDelay time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			Hold(w, maxDelay)
		} else {
			r.Body = &holdingBody{ReadCloser: r.Body, w: w, max: maxDelay}
		}
		next.ServeHTTP(w, r)
	})
}

// A holdingBody calls Hold when the body was read.
type holdingBody struct {
	io.ReadCloser
	w   http.ResponseWriter
	max time.Duration
}

func (b *holdingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		Hold(b.w, b.max)
	}
	return n, err
}
