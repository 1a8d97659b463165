package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// secure serves h over TLS, and returns what a client needs to trust it.
func secure(t *testing.T, h http.HandlerFunc, change func(*httptest.Server)) (*httptest.Server, *tls.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if change != nil {
		change(s)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, &tls.Config{RootCAs: roots}
}

func TestUpstreamOverTLS(t *testing.T) {
	s, trust := secure(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Proto", r.Proto)
		_, _ = w.Write(body)
	}, func(s *httptest.Server) { s.EnableHTTP2 = true })
	p := newPool(t, Config{Address: s.Listener.Addr().String(), TLS: trust})
	f := newFront(t, p, nil)
	for _, size := range []int{0, 5, 100_000, 1 << 20} {
		body := bytes.Repeat([]byte("x"), size)
		for name, reader := range map[string]io.Reader{"known": bytes.NewReader(body), "unknown": io.MultiReader(bytes.NewReader(body))} {
			res, got := f.do(t, "POST", "/", reader, nil)
			if got != string(body) || res.Header.Get("X-Proto") != "HTTP/1.1" {
				t.Errorf("%d bytes of %s length: got %s with %d bytes over %s", size, name, res.Status, len(got), res.Header.Get("X-Proto"))
			}
		}
	}
	if s := settled(t, p); s.Dials != 1 {
		t.Errorf("got %+v, want one connection used again", s)
	}
	if trust.ServerName != "" || trust.NextProtos != nil {
		t.Error("the configuration that was given was changed")
	}
}

func TestUntrustedUpstreamGetsNoRequest(t *testing.T) {
	s, _ := secure(t, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }, nil)
	p := newPool(t, Config{Address: s.Listener.Addr().String(), TLS: &tls.Config{RootCAs: x509.NewCertPool()}})
	_, err := p.Forward(context.Background(), httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), Head{})
	if fault(err) != FaultDial {
		t.Errorf("got %v, want a fault of dialling", err)
	}
	if st := p.Stats(); st.Open != 0 {
		t.Errorf("the connection was kept: %+v", st)
	}
}

func TestExtraTLSBytesAreNotPartOfNextResponse(t *testing.T) {
	s, trust := secure(t, nil, nil)
	certificate := s.TLS.Certificates[0]
	u := script(t, func(c *peer, _ int) {
		gather := &gathering{Conn: c.Conn}
		secured := tls.Server(gather, &tls.Config{Certificates: []tls.Certificate{certificate}})
		in := &peer{Conn: secured, in: bufio.NewReader(secured), t: t}
		for in.request() != nil {
			// Two records, which TLS may have read from the socket together: the second is then in neither the socket nor
			// what Read returned.
			gather.hold()
			in.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
			in.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
			gather.send()
		}
	})
	p := newPool(t, Config{Address: u.address, TLS: trust})
	f := newFront(t, p, nil)
	for range 20 {
		if _, body := f.get(t, "/"); body != "good" {
			t.Fatalf("got %q of another response", body)
		}
	}
}

func TestTruncatedTLSResponseNeverLooksComplete(t *testing.T) {
	s, trust := secure(t, nil, nil)
	certificate := s.TLS.Certificates[0]
	for name, polite := range map[string]bool{"with a word": true, "without": false} {
		u := script(t, func(c *peer, _ int) {
			secured := tls.Server(c.Conn, &tls.Config{Certificates: []tls.Certificate{certificate}})
			in := &peer{Conn: secured, in: bufio.NewReader(secured), t: t}
			in.request()
			in.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nthat is not all")
			if polite {
				_ = secured.Close()
			}
		})
		f := newFront(t, newPool(t, Config{Address: u.address, TLS: trust}), nil)
		if _, body, err := f.try(t, "GET", "/", nil, nil); err == nil {
			t.Errorf("ended %s: the client took %q for complete", name, body)
		}
	}
}

func TestUpstreamBehindAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})}
	go func() { _ = s.Serve(l) }()
	defer func() { _ = s.Close() }()
	p := newPool(t, Config{Address: "unix:" + path})
	f := newFront(t, p, nil)
	for range 3 {
		if _, body := f.do(t, "POST", "/", strings.NewReader("hello"), nil); body != "hello" {
			t.Errorf("got %q", body)
		}
	}
	if s := settled(t, p); s.Dials != 1 {
		t.Errorf("got %+v, want one connection used again", s)
	}
}

// gathering collects several writes, and writes them to the connection together.
type gathering struct {
	net.Conn
	held    bytes.Buffer
	holding bool
}

func (g *gathering) hold() { g.holding = true }

func (g *gathering) send() {
	g.holding = false
	_, _ = g.held.WriteTo(g.Conn)
}

func (g *gathering) Write(b []byte) (int, error) {
	if g.holding {
		return g.held.Write(b)
	}
	return g.Conn.Write(b)
}
