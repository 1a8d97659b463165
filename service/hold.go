package service

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Hold gives an answer that is held for so long more time than its server has for answers. The request must have been read.
func Hold(w http.ResponseWriter, hold time.Duration) {
	until := time.Now().Add(hold + DefaultWriteTimeout)
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(until) // where there are no deadlines there is nothing to extend
	_ = c.SetWriteDeadline(until)
}

// Holds returns a handler whose next may hold its answers for up to so long, once it has read the request to its end.
func Holds(next http.Handler, most time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			Hold(w, most)
		} else {
			r.Body = &holdingBody{ReadCloser: r.Body, w: w, most: most}
		}
		next.ServeHTTP(w, r)
	})
}

// A holdingBody begins to hold at its end.
type holdingBody struct {
	io.ReadCloser
	w    http.ResponseWriter
	most time.Duration
}

func (b *holdingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		Hold(b.w, b.most)
	}
	return n, err
}
