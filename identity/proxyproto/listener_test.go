package proxyproto

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/logbook"
)

var (
	loopback  = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	elsewhere = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	quiet     = slog.New(slog.DiscardHandler)
)

func listen(t *testing.T, c Config) *Listener {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if c.Logger == nil {
		c.Logger = quiet
	}
	l, err := NewListener(inner, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// connect returns both ends of a connection, through the listener.
func connect(t *testing.T, l *Listener) (client, server net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

func send(t *testing.T, c net.Conn, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if _, err := io.WriteString(c, part); err != nil {
			t.Error(err)
		}
	}
}

func TestConnectionIsTheClientsThatTheHeaderNames(t *testing.T) {
	l := listen(t, Config{Trusted: loopback})
	for _, tt := range headers {
		if tt.bad {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			client, server := connect(t, l)
			go func() {
				send(t, client, tt.data[:5], tt.data[5:]+"hel", "lo")
				_ = client.(*net.TCPConn).CloseWrite()
			}()
			wantSource, wantDest := client.LocalAddr().String(), client.RemoteAddr().String()
			if tt.source != "" { // written as the net package does
				wantSource = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(tt.source)).String()
				wantDest = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(tt.dest)).String()
			}
			if got := server.RemoteAddr().String(); got != wantSource {
				t.Errorf("RemoteAddr() = %s, want %s", got, wantSource)
			}
			if got := server.LocalAddr().String(); got != wantDest {
				t.Errorf("LocalAddr() = %s, want %s", got, wantDest)
			}
			if got := server.(*Conn).Balancer().String(); got != client.LocalAddr().String() {
				t.Errorf("Balancer() = %s, want %s", got, client.LocalAddr())
			}
			if got, err := io.ReadAll(server); err != nil || string(got) != "hello" {
				t.Errorf("read %q, %v, want hello", got, err)
			}
		})
	}
}

func TestBadHeadersCloseTheConnection(t *testing.T) {
	var log logbook.Book
	l := listen(t, Config{Trusted: loopback, Logger: slog.New(slog.NewTextHandler(&log, nil)), MaxHeader: 300})
	bad := map[string]string{"too long": version2Header(0x21, 0x11, addresses4+strings.Repeat("x", 300)), "half of one": "PROXY TCP4 1"}
	for _, tt := range headers {
		if tt.bad {
			bad[tt.name] = tt.data
		}
	}
	for name, data := range bad {
		t.Run(name, func(t *testing.T) {
			client, server := connect(t, l)
			send(t, client, data)
			_ = client.(*net.TCPConn).CloseWrite()
			if n, err := server.Read(make([]byte, 100)); n != 0 || !errors.Is(err, ErrHeader) {
				t.Errorf("Read = %d, %v, want %v", n, err, ErrHeader)
			}
			if _, err := server.Read(make([]byte, 100)); !errors.Is(err, ErrHeader) {
				t.Errorf("Read again: %v, want %v", err, ErrHeader)
			}
			if got := server.RemoteAddr().String(); got != client.LocalAddr().String() {
				t.Errorf("RemoteAddr() = %s, want that of who is connected, %s", got, client.LocalAddr())
			}
			if _, err := server.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Write: %v, want %v", err, net.ErrClosed)
			}
		})
	}
	if got := strings.Count(log.String(), "\n"); got != len(bad) {
		t.Errorf("%d lines are logged, want %d", got, len(bad))
	}
}

func TestACheckThatSaysNothingIsNotLogged(t *testing.T) {
	var log logbook.Book
	l := listen(t, Config{Trusted: loopback, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	client, server := connect(t, l)
	_ = client.Close()
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Read: %v, want %v", err, io.EOF)
	}
	if got := strings.Count(log.String(), "\n"); got != 0 {
		t.Errorf("%d lines are logged, want none", got)
	}
}

func TestNobodyElseIsBelieved(t *testing.T) {
	l := listen(t, Config{Trusted: elsewhere})
	client, server := connect(t, l)
	const spoof = "PROXY TCP4 203.0.113.9 192.0.2.1 4711 443\r\nhello"
	send(t, client, spoof)
	_ = client.(*net.TCPConn).CloseWrite()
	if got := server.RemoteAddr().String(); got != client.LocalAddr().String() {
		t.Errorf("RemoteAddr() = %s, want %s", got, client.LocalAddr())
	}
	if got, err := io.ReadAll(server); err != nil || string(got) != spoof {
		t.Errorf("read %q, %v, want all of it", got, err)
	}
	if l.trusts(&net.UnixAddr{Name: "@", Net: "unix"}) || !l.trusts(&net.TCPAddr{IP: net.ParseIP("10.1.1.1")}) ||
		!l.trusts(&net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Zone: "eth0"}) {
		t.Error("the wrong ones are trusted")
	}
}

func TestASilentBalancerHoldsUpNobody(t *testing.T) {
	l := listen(t, Config{Trusted: loopback, Timeout: time.Second})
	_, silent := connect(t, l)
	client, server := connect(t, l) // Accept did not wait for the other
	send(t, client, "PROXY TCP4 203.0.113.9 192.0.2.1 4711 443\r\n")
	if got := server.RemoteAddr().String(); got != "203.0.113.9:4711" {
		t.Errorf("RemoteAddr() = %s, want 203.0.113.9:4711", got)
	}
	// A deadline of the server that is later, or none, does not help it.
	for _, deadline := range []time.Time{{}, time.Now().Add(time.Hour)} {
		if err := silent.SetDeadline(deadline); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: %v, want %v", err, os.ErrDeadlineExceeded)
	}
}

func TestDeadlinesOfTheServerHoldAfterTheHeader(t *testing.T) {
	l := listen(t, Config{Trusted: loopback, Timeout: time.Hour})
	client, server := connect(t, l)
	if err := server.SetReadDeadline(time.Now().Add(time.Second / 2)); err != nil {
		t.Fatal(err)
	}
	send(t, client, "PROXY UNKNOWN\r\nx")
	if n, err := io.ReadFull(server, make([]byte, 2)); n != 1 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read = %d, %v, want 1 and %v", n, err, os.ErrDeadlineExceeded)
	}
	if err := server.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	send(t, client, "y")
	if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
		t.Errorf("without a deadline: %v", err)
	}
}

func TestHTTPServersSeeTheClient(t *testing.T) {
	l := listen(t, Config{Trusted: loopback})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.RemoteAddr)
	}))
	_ = server.Listener.Close()
	server.Listener = l
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "http", true: "https"}[secure], func(t *testing.T) {
			if secure {
				l = listen(t, Config{Trusted: loopback})
				server = httptest.NewUnstartedServer(server.Config.Handler)
				_ = server.Listener.Close()
				server.Listener = l
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			send(t, conn, version2Header(0x21, 0x21, addresses6+tlvs))
			transport := &http.Transport{
				Dial:            func(string, string) (net.Conn, error) { return conn, nil },
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // a certificate of httptest
			}
			defer transport.CloseIdleConnections()
			response, err := (&http.Client{Transport: transport}).Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			if got, err := io.ReadAll(response.Body); err != nil || string(got) != "[2001:db8::1]:4711" {
				t.Errorf("RemoteAddr = %q, %v, want [2001:db8::1]:4711", got, err)
			}
		})
	}
}

func TestConnectionsCanBeHalfClosedAndCopiedTo(t *testing.T) {
	l := listen(t, Config{Trusted: loopback})
	client, server := connect(t, l)
	if n, err := server.(*Conn).ReadFrom(strings.NewReader("bye")); n != 3 || err != nil {
		t.Errorf("ReadFrom = %d, %v, want 3", n, err)
	}
	if err := server.(*Conn).CloseWrite(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(client); err != nil || string(got) != "bye" {
		t.Errorf("read %q, %v, want bye", got, err)
	}
	a, b := net.Pipe()
	defer func() { _, _ = a.Close(), b.Close() }()
	if err := (&Conn{Conn: a}).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("CloseWrite of a pipe: %v, want %v", err, errors.ErrUnsupported)
	}
}

func TestConfigIsRefusedWithWhatWouldBeRight(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, tt := range []struct {
		config Config
		want   string
	}{
		{Config{}, "no Trusted networks"},
		{Config{Trusted: []netip.Prefix{{}}}, "want one of IPv4 or IPv6"},
		{Config{Trusted: []netip.Prefix{prefix("::ffff:10.0.0.0/104")}}, "want one of IPv4 or IPv6"},
		{Config{Trusted: []netip.Prefix{prefix("10.0.0.1/8")}}, "want 10.0.0.0/8"},
		{Config{Trusted: []netip.Prefix{prefix("0.0.0.0/0")}}, "all addresses"},
		{Config{Trusted: loopback, Timeout: -1}, "Timeout -1ns"},
		{Config{Trusted: loopback, MaxHeader: 100}, "MaxHeader 100: want 107 to 65551"},
		{Config{Trusted: loopback, MaxHeader: 70000}, "MaxHeader 70000"},
	} {
		if _, err := NewListener(nil, tt.config); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want %q in it", tt.config, err, tt.want)
		}
	}
}
