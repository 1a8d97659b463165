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

// net/http keeps a header in a map, copies it, sorts it and checks each of its lines. For the eight lines of a
// rejection that takes longer than the decision. So on a connection from Listener, net/http writes a response without
// any of them, and the connection inserts the prepared lines and the body. Everything else about the response and the
// connection is net/http's.

// Listener returns a listener whose connections make rejections of HTTP/1 requests cheaper. ConnContext must be the
// http.Server's as well:
//
//	server := &http.Server{Handler: limit(mux), ConnContext: httplimit.ConnContext}
//	server.Serve(httplimit.Listener(listener))
//
// It is for servers that must withstand a flood. Responses are the same with and without it. It has no effect on
// HTTP/2, on connections with TLS, and if something in front of this middleware has replaced the server's
// ResponseWriter by another that is no [PassThrough].
func Listener(l net.Listener) net.Listener { return &listener{l} }

// A PassThrough is a ResponseWriter that passes everything on to another, at once and unchanged. Its Write is not called
// for the body of a rejection.
type PassThrough interface {
	http.ResponseWriter
	// PassesThrough returns the writer below.
	PassesThrough() http.ResponseWriter
}

type listener struct{ net.Listener }

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if _, encrypts := conn.(*tls.Conn); encrypts {
		return conn, nil // the server must see it unchanged
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

// A readyConn completes a response of net/http that has no header and no body. It is used by the goroutine that serves
// the connection.
type readyConn struct {
	net.Conn
	lines, body []byte // for the next response, if there are lines
	out         []byte
}

// readyConnOf returns the connection if the next write on it will be the response to this request. It returns nil if
// not, or if that is unknown: a writer other than the server's own may write something else instead, or later.
func readyConnOf(w http.ResponseWriter, r *http.Request) *readyConn {
	if r.ProtoMajor != 1 || r.Method == http.MethodHead {
		return nil
	}
	conn, _ := r.Context().Value(readyConnKey{}).(*readyConn)
	if conn == nil || !isServers(w) || conflicts(w.Header()) {
		return nil
	}
	return conn
}

// isServers reports whether a writer is the server's own, or equivalent.
func isServers(w http.ResponseWriter) bool {
	for {
		through, ok := w.(PassThrough)
		if !ok {
			return reflect.TypeOf(w).String() == "*http.response"
		}
		w = through.PassesThrough()
	}
}

// conflicts reports whether others have set fields that our response has too, or that change how net/http writes it.
func conflicts(h http.Header) bool {
	for name := range h {
		if slices.Contains(fieldNames[:], name) || slices.Contains(foreignFields[:], name) ||
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

// complete returns a response with the lines behind its first one, and with the body if it has none. It has one only if
// a handler has written or flushed afterwards; then only the lines are added.
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

// A halfCloser is a connection whose sending side can be closed alone, as *net.TCPConn.
type halfCloser interface{ CloseWrite() error }

var _ halfCloser = (*readyConn)(nil)

// CloseWrite is called by net/http after an error, so that its response arrives.
func (c *readyConn) CloseWrite() error {
	if half, ok := c.Conn.(halfCloser); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn returns the underlying connection, for callers that need its type.
func (c *readyConn) NetConn() net.Conn { return c.Conn }
