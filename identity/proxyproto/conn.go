package proxyproto

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A Conn is a connection from a load balancer. RemoteAddr and LocalAddr return the addresses in the PROXY header, and
// Read returns the data after it. These methods wait for the header, for at most Config.Timeout.
type Conn struct {
	net.Conn
	config         *Config
	headerDeadline time.Time // for the header

	once   sync.Once // guards the following
	header Header
	err    error

	mu           sync.Mutex // guards the following
	rest         []byte     // data that was read together with the header
	headerDone   bool       // the header was read, or reading it has failed
	readDeadline time.Time  // set by the server with SetReadDeadline
}

var (
	_ net.Conn      = (*Conn)(nil)
	_ io.ReaderFrom = (*Conn)(nil)
)

// Header returns the header. The error says why it could not be read.
func (c *Conn) Header() (Header, error) {
	c.once.Do(c.readHeader)
	return c.header, c.err
}

// Balancer returns the address of the load balancer.
func (c *Conn) Balancer() net.Addr { return c.Conn.RemoteAddr() }

// RemoteAddr returns the client's address, or the load balancer's if the header has no address.
func (c *Conn) RemoteAddr() net.Addr {
	if h, err := c.Header(); err == nil && h.Source.IsValid() {
		return net.TCPAddrFromAddrPort(h.Source)
	}
	return c.Conn.RemoteAddr()
}

// LocalAddr returns the address to which the client has connected. If the header has no address, it returns the address
// to which the load balancer has connected.
func (c *Conn) LocalAddr() net.Addr {
	if h, err := c.Header(); err == nil && h.Destination.IsValid() {
		return net.TCPAddrFromAddrPort(h.Destination)
	}
	return c.Conn.LocalAddr()
}

func (c *Conn) Read(p []byte) (int, error) {
	if _, err := c.Header(); err != nil {
		return 0, err
	}
	c.mu.Lock()
	if len(c.rest) > 0 {
		defer c.mu.Unlock()
		n := copy(p, c.rest)
		if c.rest = c.rest[n:]; len(c.rest) == 0 {
			c.rest = nil
		}
		return n, nil
	}
	c.mu.Unlock()
	return c.Conn.Read(p)
}

// SetDeadline sets the deadlines for reading and writing.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetWriteDeadline(t); err != nil {
		return err
	}
	return c.SetReadDeadline(t)
}

// SetReadDeadline sets the deadline for reading. Until the header has been read, Config.Timeout applies as well.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readDeadline = t
	if !c.headerDone && (t.IsZero() || c.headerDeadline.Before(t)) {
		t = c.headerDeadline
	}
	return c.Conn.SetReadDeadline(t)
}

// ReadFrom implements io.ReaderFrom, so that sendfile is used if the inner connection supports it.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// A halfCloser is a connection whose sending side can be closed separately, such as *net.TCPConn.
type halfCloser interface{ CloseWrite() error }

var _ halfCloser = (*Conn)(nil)

// CloseWrite closes the sending side of the connection. A server needs this to respond to a request that it does not
// read to its end. CloseWrite returns errors.ErrUnsupported if the inner connection does not support it.
func (c *Conn) CloseWrite() error {
	if closer, ok := c.Conn.(halfCloser); ok {
		return closer.CloseWrite()
	}
	return errors.ErrUnsupported
}

// readHeader reads the header, and restores the server's deadline. If the header is invalid, it closes the connection.
func (c *Conn) readHeader() {
	header, rest, err := readHeader(c.Conn, c.config.MaxHeader)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headerDone = true
	if err == nil {
		err = c.Conn.SetReadDeadline(c.readDeadline)
	}
	if err != nil {
		if !errors.Is(err, io.EOF) { // TCP health checks close the connection without a header
			c.config.Logger.Warn("invalid PROXY header, closing the connection",
				"peer", c.Conn.RemoteAddr().String(), "err", err)
		}
		c.err = err
		_ = c.Close()
		return
	}
	if onClient := c.config.OnClient; onClient != nil && header.Source.IsValid() {
		if c.err = onClient(c.Conn, header.Source); c.err != nil {
			_ = c.Close()
			return
		}
	}
	c.header, c.rest = header, rest
}

// NetConn returns the connection of the load balancer.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// readHeader reads until the header is complete, and returns the bytes after it.
func readHeader(r io.Reader, maxHeader int) (h Header, rest []byte, err error) {
	buf := make([]byte, 0, 256)
	for {
		if len(buf) == cap(buf) {
			larger := make([]byte, len(buf), min(2*cap(buf), maxHeader))
			copy(larger, buf)
			buf = larger
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if n > 0 {
			h, length, parseErr := Parse(buf)
			switch {
			case parseErr != nil:
				return Header{}, nil, parseErr
			case length > 0 && length <= maxHeader:
				return h, buf[length:], nil
			case length > maxHeader || len(buf) >= maxHeader:
				return Header{}, nil, fmt.Errorf("%w: longer than %d bytes (MaxHeader)", ErrHeader, maxHeader)
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) && len(buf) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return Header{}, nil, fmt.Errorf("%w: %w", ErrHeader, err)
		}
	}
}
