package gossip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/fleet"
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

func TestGossipBoundsWhatIsReadOfAStream(t *testing.T) {
	for _, tt := range []struct {
		name string
		head []byte
		want error
		most int
	}{
		{"19 MB announced", streamHead(encryptedMessage, binary.BigEndian.AppendUint32(nil, 19<<20)...), errStreamLong, 1 << 16},
		{"a message without end", streamHead(encryptedMessage, binary.BigEndian.AppendUint32(nil, 1<<20)...), errStreamLong, maxStreamBytes + 1<<16},
		{"no label and no key", []byte{0}, errStreamLong, maxStreamBytes + 1<<16},
		{"a million hosts announced", announcedState(t, 1<<20, 0), errStreamLong, 1 << 16},
		{"20 MB of state announced", announcedState(t, 1, 20<<20), errStreamLong, 1 << 16},
		{"a small state announced", announcedState(t, 3, 1000), errStreamLong, maxStreamBytes + 1<<16},
		{"compressed", streamHead(compressMessage), errStreamKind, 1 << 16},
		{"a user's message", streamHead(userMessage), errStreamKind, 1 << 16},
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

// Streams from one address that say little take a few places, and leave those of others alone.
func TestGossipLetsInAFewStreamsOfOneAddress(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdef")
	home := startReal(t, "home", func(_ *fleet.LedgerOptions, o *Options) { o.Key = key })
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}, Timeout: 10 * time.Second}
	const many = 100
	held := 0
	ended := make(chan struct{}, many)
	for range many {
		conn, err := from.DialContext(t.Context(), "tcp", home.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write(streamHead(encryptedMessage, 0, 1)); err != nil {
			continue // it was closed already, and is read so below
		}
		held++
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			ended <- struct{}{}
		}()
	}
	await.True(t, "all but a few are refused", func() bool { return home.Stats().StreamsRefused >= many-2*maxStreamsFrom })
	friend := startReal(t, "friend", func(lo *fleet.LedgerOptions, o *Options) {
		o.Key = key
		joining(home)(lo, o)
	})
	await.True(t, "a friend joins", allLive(2, home, friend))
	await.True(t, "every stream ends", func() bool { return len(ended) == held && home.openStreams() == 0 })
}

// openStreams is how many streams are open from hosts that are not members.
func (h *realHost) openStreams() int {
	g := h.currentMesh().(*memberMesh).streams
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}
