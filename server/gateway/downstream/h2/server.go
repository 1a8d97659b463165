package h2

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// A Server has the configuration of connections, and the memory and workers that they share. Its fields must not
// change after NewConn was called.
type Server struct {
	// Handler serves requests. It must not use a request after it has returned. Required.
	Handler http.Handler
	// NetHTTP is the value of http.ServerContextKey in contexts. Default nil.
	NetHTTP *http.Server
	// MaxStreams is the maximum number of concurrent requests of a connection. Required.
	MaxStreams int
	// MaxHeaderBytes is the maximum size of a header, with 32 bytes for each field. Required.
	MaxHeaderBytes int
	// HeaderTimeout is the maximum time to receive the preface and the first frame of a connection, and the time to
	// receive each header block. 0: no maximum.
	HeaderTimeout time.Duration
	// IdleTimeout is the maximum time that a connection has no streams. A client that has streams but sends nothing for
	// IdleTimeout gets a ping, which it must acknowledge within PingTimeout. 0: no maximum.
	IdleTimeout, PingTimeout time.Duration
	// WriteTimeout is the maximum time that a write of a handler waits for the client. A handler can set another deadline.
	// 0: no maximum.
	WriteTimeout time.Duration
	// Date returns the value of the Date header. Required.
	Date func() string
	// Logf logs panics of handlers. Required.
	Logf func(format string, args ...any)

	buffers sync.Pool // of *[readSize]byte
	chunks  sync.Pool // of *chunk
	outs    sync.Pool // of *outBuffer
	streams sync.Pool // of *stream
	workers workers
}

// Close ends the goroutines that wait for requests. Goroutines that run handlers end after their handlers. It
// does not close connections.
func (s *Server) Close() { s.workers.close() }

// A Link is a connection to serve.
type Link struct {
	// Conn is the connection; with TLS, it is the *tls.Conn. Serve closes it.
	Conn net.Conn
	// Rest has bytes that were already read from Conn.
	Rest []byte
	// Remote is the address of the client.
	Remote string
	// TLS is the state of the TLS connection; nil without TLS.
	TLS *tls.ConnectionState
	// States is notified when the connection becomes busy or idle. Required.
	States States
}

// States is notified when a connection becomes busy or idle. Its methods must not block.
type States interface {
	// Busy is called when a connection without requests gets one. It returns false if the connection is being closed.
	Busy() bool
	// Idle is called when a connection has no more requests. denied reports whether the last one got 429.
	Idle(denied bool)
}

// A chunk has a part of a body that was received and not yet read.
type chunk [4 << 10]byte

func (s *Server) chunk() *chunk {
	if c, ok := s.chunks.Get().(*chunk); ok {
		return c
	}
	return new(chunk)
}

// An outBuffer has frames to send.
type outBuffer struct{ frames []byte }

// keptOut is the maximum size of an outBuffer that is reused.
const keptOut = 2 * maxQueued

func (s *Server) out() *outBuffer {
	if b, ok := s.outs.Get().(*outBuffer); ok {
		return b
	}
	return new(outBuffer)
}

func (s *Server) releaseOut(b *outBuffer) {
	if b != nil && cap(b.frames) <= keptOut {
		b.frames = b.frames[:0]
		s.outs.Put(b)
	}
}
