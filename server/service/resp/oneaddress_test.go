package resp_test

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/memstore"
)

// One address that opens more connections than there may be does not keep others out.
func TestOneAddressDoesNotLockOthersOut(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	config.Limits.Conns = 256 // a quarter of them for one address
	s := serve(t, config)
	for range 300 {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			continue // refused, and closed already
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "PING\r\n") // some are refused
	}
	await.True(t, "all have been accepted or refused", func() bool { return s.Stats().Accepted+s.Stats().Refused >= 300 })
	other := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	conn, err := other.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, "PING\r\n")
	if got, err := bufio.NewReader(conn).ReadString('\n'); got != "+PONG\r\n" {
		t.Errorf("another address got %q, %v, want +PONG", got, err)
	}
}
