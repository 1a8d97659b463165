package httplimit

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strconv"
)

// net/http keeps a header in a map, copies it, sorts it and checks each of its lines. For the eight lines of a rejection that
// takes longer than to decide it. So on a connection that comes from a Listener of ours, net/http writes an answer without
// any, and the connection puts in what is missing: the lines and the body, which are ready as they are. Everything else about
// the answer and the connection is net/http's.

// Listener returns a listener whose connections make it cheaper to reject requests of HTTP/1. ConnContext must be the
// http.Server's as well:
//
//	server := &http.Server{Handler: limit(mux), ConnContext: httplimit.ConnContext}
//	server.Serve(httplimit.Listener(listener))
//
// It is of use to servers without TLS that must stand a flood. Answers are the same with and without it.
func Listener(l net.Listener) net.Listener { return &listener{l} }

type listener struct{ net.Listener }

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
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

// A readyConn completes an answer of net/http's that has no header and no body. It is used by the one goroutine that serves
// the connection.
type readyConn struct {
	net.Conn
	lines, body []byte // for the next answer
	out         []byte
}

// readyConnOf returns the connection if the next that is written on it will be the answer to this request, nil if not or if
// that cannot be known: another writer than the server's own may write something else instead, or later.
func readyConnOf(w http.ResponseWriter, r *http.Request) *readyConn {
	if r.ProtoMajor != 1 || r.Method == http.MethodHead || reflect.TypeOf(w).String() != "*http.response" {
		return nil
	}
	conn, _ := r.Context().Value(readyConnKey{}).(*readyConn)
	if conn == nil || setsOurs(w.Header()) {
		return nil
	}
	return conn
}

// setsOurs tells whether a header has fields already that an answer of ours has, or removes.
func setsOurs(h http.Header) bool {
	for name := range h {
		if slices.Contains(fieldNames[:], name) || slices.Contains(notOurs[:], name) {
			return true
		}
	}
	return false
}

var noLength = []byte("\r\nContent-Length: 0\r\n")

func (c *readyConn) Write(p []byte) (int, error) {
	if len(c.lines) == 0 {
		return c.Conn.Write(p)
	}
	lines := c.lines
	c.lines = c.lines[:0]
	at := bytes.Index(p, noLength)
	if at < 0 {
		return c.Conn.Write(p)
	}
	out := append(c.out[:0], p[:at+2]...)
	out = append(out, lines...)
	out = append(out, "Content-Length: "...)
	out = strconv.AppendInt(out, int64(len(c.body)), 10)
	out = append(out, p[at+len(noLength)-2:]...)
	out = append(out, c.body...)
	c.out = out
	if n, err := c.Conn.Write(out); err != nil {
		return min(n, len(p)), err
	}
	return len(p), nil
}

// ReadFrom has the system send files.
func (c *readyConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(c.Conn, r)
}
