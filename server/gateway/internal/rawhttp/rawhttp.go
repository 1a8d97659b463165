// Package rawhttp is for tests that speak HTTP/1 byte by byte.
package rawhttp

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Patience is the time for which tests wait for something that usually happens immediately, because the machine may be
// busy.
const Patience = time.Minute

// Dial connects to an address. The connection is closed at the end of the test, and its deadline is Patience
// from now.
func Dial(t testing.TB, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// Send sends text.
func Send(t testing.TB, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// Lines returns a request with the given lines and no body.
func Lines(l ...string) string { return strings.Join(l, "\r\n") + "\r\n\r\n" }
