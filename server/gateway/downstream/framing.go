package downstream

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// A framingScanner finds the headers Content-Length and Transfer-Encoding in the bytes of a connection. Both determine
// where a body ends. If a request has both, a proxy in front of the gateway may have used the other header, and may
// treat different bytes as the next request. So no request may follow on the connection (RFC 9112, 6.1). net/http does
// not report the header that it ignores. So the scanner reads all bytes of the connection. If a body contains text that
// looks like such a header, the connection is closed unnecessarily, which is harmless.
type framingScanner struct {
	contentLength, transferEncoding lineScanner
}

// scan scans the next bytes of the connection.
func (f *framingScanner) scan(b []byte) {
	f.contentLength.scan(b, "\ncontent-length:")
	f.transferEncoding.scan(b, "\ntransfer-encoding:")
}

// closes reports whether the connection must be closed after the response to a request.
func (f *framingScanner) closes(r *http.Request) bool {
	switch {
	case len(r.TransferEncoding) > 0:
		return f.contentLength.found.Load()
	case r.ProtoAtLeast(1, 1):
		return false
	default:
		return f.transferEncoding.found.Load() // HTTP/1.0 has no Transfer-Encoding, and net/http ignores it
	}
}

// A lineScanner finds a line with a given beginning.
type lineScanner struct {
	matched int // how many bytes of the beginning of the line were matched so far
	found   atomic.Bool
}

// scan scans the next bytes of the connection. line is the beginning of the line in lower case, with an LF in front.
func (s *lineScanner) scan(b []byte, line string) {
	if s.found.Load() {
		return
	}
	for len(b) > 0 {
		if s.matched == 0 {
			i := bytes.IndexByte(b, '\n')
			if i < 0 {
				return
			}
			b = b[i:]
		}
		switch c := b[0]; {
		case c == line[s.matched], c >= 'A' && c <= 'Z' && c|0x20 == line[s.matched]:
			if s.matched++; s.matched == len(line) {
				s.found.Store(true)
				return
			}
		case c == '\n':
			s.matched = 1
		default:
			s.matched = 0
		}
		b = b[1:]
	}
}

type framingKey struct{}

// closeAmbiguous makes a net/http server close connections after requests whose length is ambiguous.
func closeAmbiguous(s *http.Server) {
	conn, handler := s.ConnContext, s.Handler
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if conn != nil {
			ctx = conn(ctx, c)
		}
		switch c := c.(type) {
		case *replayedConn:
			ctx = context.WithValue(ctx, framingKey{}, &c.framing)
		case *replayedTLSConn:
			ctx = context.WithValue(ctx, framingKey{}, &c.framing)
		}
		return ctx
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && (len(r.TransferEncoding) > 0 || r.ProtoMinor == 0) {
			if f, ok := r.Context().Value(framingKey{}).(*framingScanner); ok && f.closes(r) {
				w.Header()["Connection"] = []string{"close"}
			}
		}
		handler.ServeHTTP(w, r)
	})
}
