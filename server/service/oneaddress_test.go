package service_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/service"
)

// One address with long requests does not keep others out.
func TestOneAddressDoesNotLockOthersOut(t *testing.T) {
	release := make(chan struct{})
	s, addr, _ := start(t, service.HTTPConfig{MaxConns: 256, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/other" {
			<-release
		}
	})})
	t.Cleanup(func() { close(release) })
	for range 300 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			continue // refused, and closed already
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") // some are refused
	}
	await.True(t, "all have been accepted or refused", func() bool {
		counts := s.Conns().Counts()
		return counts.Accepted+counts.Refused >= 300
	})
	other := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	conn, err := other.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, "GET /other HTTP/1.1\r\nHost: a\r\n\r\n")
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("another address got no response: %v", err)
	}
	_ = r.Body.Close()
}
