package upstream

import (
	"errors"
	"io"
	"net/http"
	"strings"
)

// A bodyMode is how the body of a request is sent.
type bodyMode uint8

const (
	noBody   bodyMode = iota
	buffered          // sent with the head in one write; it can be sent again
	streamed          // sent as it arrives, by a second goroutine, so that the response can be read at the same time
)

// requestBody describes the body of a request.
type requestBody struct {
	mode            bodyMode
	length          int64 // -1 if it is unknown, so that the body must be sent in chunks
	expectsContinue bool  // the client waits for 100 Continue
}

// describeBody decides how the body of r is sent.
func (p *Pool) describeBody(r *http.Request) (requestBody, error) {
	if r.Body == nil && r.ContentLength != 0 {
		return requestBody{}, errNoBody
	}
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return requestBody{}, nil
	}
	b := requestBody{mode: streamed, length: max(r.ContentLength, -1)}
	if e := r.Header["Expect"]; len(e) == 1 && strings.EqualFold(e[0], "100-continue") && r.ProtoAtLeast(1, 1) {
		b.expectsContinue = true
	} else if b.length > 0 && b.length <= int64(p.config.MaxBufferedBody) {
		b.mode = buffered
	}
	return b, nil
}

// appendBody reads the whole body from r, and appends it to dst.
func (b *requestBody) appendBody(dst []byte, r io.Reader) ([]byte, error) {
	start := len(dst)
	if need := start + int(b.length); cap(dst) < need {
		dst = append(make([]byte, 0, need), dst...)
	}
	dst = dst[:start+int(b.length)]
	_, err := io.ReadFull(r, dst[start:])
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return dst, err
}

// isIdempotent reports whether a request may be processed twice (RFC 9110 section 9.2.2). Like net/http, it returns
// true for any method if the request has an idempotency key.
func isIdempotent(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
}
