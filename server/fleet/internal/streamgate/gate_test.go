package streamgate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// streamHead is how a stream begins that carries a message of some type.
func streamHead(kind byte, rest ...byte) []byte {
	head := append([]byte{labelMessage, 4}, "test"...)
	return append(append(head, kind), rest...)
}

func announcedState(t *testing.T, nodes, state int) []byte {
	t.Helper()
	b := []byte{}
	announced := struct {
		Nodes, UserStateLen int
		Join                bool
	}{nodes, state, true}
	if err := codec.NewEncoderBytes(&b, &codec.MsgpackHandle{}).Encode(announced); err != nil {
		t.Fatal(err)
	}
	return streamHead(pushPullMessage, append(b, make([]byte, 64)...)...)
}

// endless is a connection that sends bytes without end, and counts them.
type endless struct {
	net.Conn
	head io.Reader
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	n, err := e.head.Read(p)
	if errors.Is(err, io.EOF) {
		clear(p)
		n, err = len(p), nil
	}
	e.read += n
	return n, err
}

func TestAStreamIsReadUpToALimit(t *testing.T) {
	for _, tt := range []struct {
		name string
		head []byte
		want error
		most int
	}{
		{"19 MB announced", streamHead(encryptedMessage, binary.BigEndian.AppendUint32(nil, 19<<20)...), errTooLong, 1 << 16},
		{"a message without end", streamHead(encryptedMessage, binary.BigEndian.AppendUint32(nil, 1<<20)...), errTooLong, maxBytes + 1<<16},
		{"no label and no key", []byte{0}, errTooLong, maxBytes + 1<<16},
		{"a million hosts announced", announcedState(t, 1<<20, 0), errTooLong, 1 << 16},
		{"20 MB of state announced", announcedState(t, 1, 20<<20), errTooLong, 1 << 16},
		{"a small state announced", announcedState(t, 3, 1000), errTooLong, maxBytes + 1<<16},
		{"compressed", streamHead(compressMessage), errKind, 1 << 16},
		{"a user's message", streamHead(userMessage), errKind, 1 << 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := &endless{head: bytes.NewReader(tt.head)}
			_, err := io.Copy(io.Discard, newStream(conn, func() {}))
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if conn.read > tt.most {
				t.Errorf("%d bytes were read, want at most %d", conn.read, tt.most)
			}
		})
	}
}

// A pipeEnd is a connection from an address.
type pipeEnd struct {
	net.Conn
	from string
}

func (c pipeEnd) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from))
}
func (c pipeEnd) Close() error { return nil }

func TestAClosedStreamMakesRoomForAnother(t *testing.T) {
	refused := 0
	g := &Gate{
		isMember:  func(ip netip.Addr) bool { return ip == netip.MustParseAddr("10.0.0.9") },
		onRefused: func(string, error) { refused++ }, openFrom: map[netip.Prefix]int{},
	}
	open := func(from string) (net.Conn, bool) { return g.reserve(pipeEnd{from: from}) }
	held := []net.Conn{}
	for _, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"} {
		for range MaxFromAddress {
			conn, ok := open(ip + ":1000")
			if !ok {
				t.Fatalf("%s: a stream was refused, want %d accepted", ip, MaxFromAddress)
			}
			held = append(held, conn)
		}
	}
	for _, from := range []string{"10.0.0.1:2000", "10.0.0.5:1000"} { // too many of one address, and too many in all
		if _, ok := open(from); ok {
			t.Errorf("%s: a stream was accepted, want it refused", from)
		}
	}
	if _, ok := open("10.0.0.9:1000"); !ok {
		t.Error("a member's stream was refused, want it accepted")
	}
	if got := g.Refused(); got != 2 || refused != 2 {
		t.Errorf("got %d refused streams and %d calls of onRefused, want 2 and 2", got, refused)
	}
	for _, conn := range held {
		_, _ = conn.Close(), conn.Close() // the second call has no effect
	}
	for range MaxFromAddress {
		if _, ok := open("10.0.0.1:2000"); !ok {
			t.Error("a stream was refused after others were closed, want it accepted")
		}
	}
	if g.open != MaxFromAddress {
		t.Errorf("got %d open streams, want %d", g.open, MaxFromAddress)
	}
}
