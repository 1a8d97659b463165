package gateway

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"
)

func TestProxyProtocolNamesTheClient(t *testing.T) {
	files := makeCertificate(t, t.TempDir(), "one", "localhost")
	up := newRecorder(t)
	c := before(up.URL)
	c.Listeners = []Listener{
		{ProxyProtocol: nets(t, "127.0.0.0/8")},
		{ProxyProtocol: nets(t, "127.0.0.0/8"), TLS: &TLS{Certificates: []CertificateFiles{files}}},
		{ProxyProtocol: nets(t, "10.0.0.0/8")},
	}
	g := start(t, c)
	const header = "PROXY TCP4 203.0.113.9 192.0.2.1 4711 443\r\n"
	conn, r := dial(t, g)
	send(t, conn, header+lines("GET / HTTP/1.1", "Host: a.example", "X-Forwarded-For: 1.1.1.1"))
	if a := receive(t, r, "GET"); a.status != 200 {
		t.Fatalf("status %d", a.status)
	}
	if got := up.one(t).header.Get("X-Forwarded-For"); got != "203.0.113.9" {
		t.Errorf("X-Forwarded-For %q, want the client that the balancer names", got)
	}
	// A balancer must send the header.
	conn, r = dial(t, g)
	send(t, conn, lines("GET / HTTP/1.1", "Host: a.example"))
	if a, err := tryReceive(r, "GET"); err == nil {
		t.Errorf("without a header: got %+v, want the end", a)
	}
	// The header comes before the handshake.
	plain, err := netDial(t, g.Addrs()[1].String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Close() }()
	send(t, plain, header)
	secure := tls.Client(plain, &tls.Config{InsecureSkipVerify: true})
	send(t, secure, lines("GET /s HTTP/1.1", "Host: a.example"))
	buffer := make([]byte, 12)
	if _, err := io.ReadFull(secure, buffer); err != nil || string(buffer) != "HTTP/1.1 200" {
		t.Errorf("over TLS: %q, %v", buffer, err)
	}
	if got := up.one(t).header; got.Get("X-Forwarded-For") != "203.0.113.9" || got.Get("X-Forwarded-Proto") != "https" {
		t.Errorf("over TLS: %v", got)
	}
	// A client that is no balancer cannot send the header.
	other, err := netDial(t, g.Addrs()[2].String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	send(t, other, header+lines("GET / HTTP/1.1", "Host: a.example"))
	if _, err := io.ReadFull(other, buffer); err == nil && string(buffer) != "HTTP/1.1 400" {
		t.Errorf("from elsewhere: %q, want 400", buffer)
	}
	if seen := up.taken(); len(seen) > 0 {
		t.Errorf("the upstream saw %+v", seen)
	}
}

func netDial(t testing.TB, address string) (net.Conn, error) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(patience))
}
