package httplimit

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A lineWriter is the ResponseWriter of a server that takes lines of a header as they are on the wire: names and values that
// are valid, each line with its CR and LF. They are sent with the answer, not with interim ones, and headers of the names given
// are left out in return. The room is for the lines; what is in it is used until the answer is over. Who says lines, if only
// none, does not read the header of the answer: the server need not keep it in a map.
type lineWriter interface {
	HeaderLines() (room []byte, ok bool)
	SetHeaderLines(lines []byte, instead []string)
}

// lineWriterOf returns w as one, with its room, or nil.
func lineWriterOf(w http.ResponseWriter) (lines lineWriter, room []byte) {
	lines, ok := w.(lineWriter)
	if !ok {
		return nil, nil
	}
	if room, ok = lines.HeaderLines(); !ok {
		return nil, nil
	}
	return lines, room
}

// net/http keeps a header in a map, copies it, sorts it and checks each of its lines. For the eight lines of a rejection that
// takes longer than to decide it. So on a connection that comes from Listener, net/http writes an answer without any of them,
// and the connection puts in what is missing: the lines and the body, ready as they are. Everything else about the answer and
// the connection is net/http's.

// Listener returns a listener whose connections make it cheaper to reject requests of HTTP/1. ConnContext must be the
// http.Server's as well:
//
//	server := &http.Server{Handler: limit(mux), ConnContext: httplimit.ConnContext}
//	server.Serve(httplimit.Listener(listener))
//
// It is for servers that must stand a flood. Answers are the same with and without it. It makes no difference to HTTP/2, to
// connections with TLS, and where something before this middleware has put a ResponseWriter of its own in place of the
// server's; unless that passes on whatever is written, at once and as it is, and says so with a method
//
//	PassesThrough() http.ResponseWriter
//
// which returns the writer below. Its Write is not called then for the body of a rejection.
func Listener(l net.Listener) net.Listener { return &listener{l} }

type listener struct{ net.Listener }

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if _, encrypts := conn.(*tls.Conn); encrypts {
		return conn, nil // which the server must see as it is
	}
	return &readyConn{Conn: conn}, nil
}

type readyConnKey struct{}

// ConnContext is for http.Server.ConnContext. See Listener.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if conn, ok := c.(*readyConn); ok {
		return context.WithValue(ctx, readyConnKey{}, conn)
	}
	return ctx
}

// A readyConn completes an answer of net/http's that has no header and no body. It is used by the goroutine that serves the
// connection.
type readyConn struct {
	net.Conn
	lines, body []byte // for the next answer, if there are lines
	out         []byte
}

// readyConnOf returns the connection if what is written on it next will be the answer to this request. It returns nil if not,
// and if that cannot be known: another writer than the server's own may write something else instead, or later.
func readyConnOf(w http.ResponseWriter, r *http.Request) *readyConn {
	if r.ProtoMajor != 1 || r.Method == http.MethodHead {
		return nil
	}
	conn, _ := r.Context().Value(readyConnKey{}).(*readyConn)
	if conn == nil || !isServers(w) || meddles(w.Header()) {
		return nil
	}
	return conn
}

// isServers tells whether a writer is the server's own, or as good as that.
func isServers(w http.ResponseWriter) bool {
	for {
		through, ok := w.(interface{ PassesThrough() http.ResponseWriter })
		if !ok {
			return reflect.TypeOf(w).String() == "*http.response"
		}
		w = through.PassesThrough()
	}
}

// meddles tells whether others have set fields that our answer has too, or that change how net/http writes it.
func meddles(h http.Header) bool {
	for name := range h {
		if slices.Contains(fieldNames[:], name) || slices.Contains(notOurs[:], name) ||
			name == "Transfer-Encoding" || strings.HasPrefix(name, "Trailer") {
			return true
		}
	}
	return false
}

var (
	beginning = []byte("HTTP/1.")
	noLength  = []byte("\r\nContent-Length: 0\r\n")
)

func (c *readyConn) Write(p []byte) (int, error) {
	if len(c.lines) == 0 {
		return c.Conn.Write(p)
	}
	out := c.complete(p)
	c.lines = c.lines[:0]
	n, err := c.Conn.Write(out)
	if err == nil {
		return len(p), nil
	}
	return min(n, len(p)), err
}

// complete returns an answer with the lines behind its first one, and with the body if it has none. It has one only if somebody
// has written or flushed when we were done; then the lines are all that we have to say.
func (c *readyConn) complete(p []byte) []byte {
	first := bytes.IndexByte(p, '\n') + 1
	if !bytes.HasPrefix(p, beginning) || first == 0 {
		return p
	}
	out := c.out[:0]
	out = append(out, p[:first]...)
	out = append(out, c.lines...)
	if at := bytes.Index(p, noLength); at >= 0 {
		out = append(out, p[first:at+2]...)
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, int64(len(c.body)), 10)
		out = append(out, p[at+len(noLength)-2:]...)
		out = append(out, c.body...)
	} else {
		out = append(out, p[first:]...)
	}
	c.out = out
	return out
}

// ReadFrom lets the system send files, if it can.
func (c *readyConn) ReadFrom(r io.Reader) (int64, error) {
	if from, ok := c.Conn.(io.ReaderFrom); ok {
		return from.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

// CloseWrite is what net/http closes with after an error, so that its answer arrives.
func (c *readyConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn returns the connection itself, for who needs to know its kind.
func (c *readyConn) NetConn() net.Conn { return c.Conn }
