package gossip

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/streamgate"
)

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
		// The label of the cluster, and the start of an encrypted message.
		if _, err := conn.Write([]byte("\xf4\x04test\x0a\x00\x01")); err != nil {
			continue // it was closed already, and is read so below
		}
		held++
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			ended <- struct{}{}
		}()
	}
	await.True(t, "all but a few are refused", func() bool { return home.Stats().StreamsRefused >= many-2*streamgate.MaxFromAddress })
	friend := startReal(t, "friend", func(lo *fleet.LedgerOptions, o *Options) {
		o.Key = key
		joining(home)(lo, o)
	})
	await.True(t, "a friend joins", allLive(2, home, friend))
	await.True(t, "every stream ends", func() bool { return len(ended) == held })
}
