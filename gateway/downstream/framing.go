package downstream

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// A framing notes which headers have come on a connection that say where a body ends. A request that says it in two ways is
// answered by one of them, and somebody on its way may have gone by the other: what follows on the connection could be part of
// its body there, so nothing may follow (RFC 9112, 6.1). net/http forgets the way that it does not go by, so this is read from
// the bytes. Text of a body that looks like such a header is taken for one, and costs a connection.
type framing struct {
	length, coding spotter
}

// see is told of all that is read, in its order.
func (f *framing) see(b []byte) {
	f.length.see(b, "\ncontent-length:")
	f.coding.see(b, "\ntransfer-encoding:")
}

// closes reports whether a request's connection must end with the answer.
func (f *framing) closes(r *http.Request) bool {
	switch {
	case len(r.TransferEncoding) > 0:
		return f.length.found.Load()
	case r.ProtoAtLeast(1, 1):
		return false
	default:
		return f.coding.found.Load() // which did not exist then, and is passed over
	}
}

// A spotter looks for a line that begins in a certain way.
type spotter struct {
	matched int // bytes of it
	found   atomic.Bool
}

// see looks through what comes next. line begins with LF, which it does not have a second time.
func (s *spotter) see(b []byte, line string) {
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

// closeAmbiguous has rest end connections after requests that can be read in two ways.
func closeAmbiguous(rest *http.Server) {
	conn, handler := rest.ConnContext, rest.Handler
	rest.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if conn != nil {
			ctx = conn(ctx, c)
		}
		switch c := c.(type) {
		case *replayed:
			ctx = context.WithValue(ctx, framingKey{}, &c.framing)
		case *replayedTLS:
			ctx = context.WithValue(ctx, framingKey{}, &c.framing)
		}
		return ctx
	}
	rest.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && (len(r.TransferEncoding) > 0 || r.ProtoMinor == 0) {
			if f, ok := r.Context().Value(framingKey{}).(*framing); ok && f.closes(r) {
				w.Header()["Connection"] = []string{"close"}
			}
		}
		handler.ServeHTTP(w, r)
	})
}
