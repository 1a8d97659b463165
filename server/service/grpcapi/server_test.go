package grpcapi

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/server/service"
)

func TestConnectionsAreBounded(t *testing.T) {
	s, address := start(t, Config{MaxConns: 3})
	var conns []*grpc.ClientConn
	for range 3 {
		conn := dial(t, address)
		if _, err := headgatev1.NewRateLimiterClient(conn).RateLimit(patient(t), ask("a", "/")); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	if got := s.Conns().Open(); got != 3 {
		t.Fatalf("got %d connections, want 3", got)
	}
	fourth := headgatev1.NewRateLimiterClient(dial(t, address))
	if _, err := fourth.RateLimit(patient(t), ask("a", "/")); status.Code(err) != codes.Unavailable {
		t.Errorf("a fourth: got %v, want Unavailable", err)
	}
	if err := conns[0].Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "a place for the fourth", func() bool {
		_, err := fourth.RateLimit(patient(t), ask("a", "/"), grpc.WaitForReady(true))
		return err == nil
	})
}

func TestClientsThatPingTooOftenAreDisconnected(t *testing.T) {
	_, address := start(t, Config{MinPing: time.Hour})
	// grpc-go's client pings no more often than every ten seconds, so this one speaks HTTP/2 by hand.
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
	ping := append([]byte{0, 0, 8, 6, 0, 0, 0, 0, 0}, "12345678"...)
	if _, err := conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings...)); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := conn.Write(ping); err != nil {
			break // it has closed already
		}
	}
	said, _ := io.ReadAll(conn) // a reset is an end too
	if !strings.Contains(string(said), "too_many_pings") {
		t.Errorf("got %q, want too_many_pings", said)
	}
}

func TestConfigIsChecked(t *testing.T) {
	e := newEngine(t, newStore(t, nil), nil)
	for name, c := range map[string]Config{
		"no engine":       {},
		"a small message": {Engine: e, MaxMessage: 10},
		"no batch":        {Engine: e, MaxBatch: -1},
		"no streams":      {Engine: e, MaxStreams: -1},
		"no connections":  {Engine: e, MaxConns: -1},
		"no one at once":  {Engine: e, Parallel: -1},
		"a ping too soon": {Engine: e, MinPing: -1},
		"no certificates": {Engine: e, TLS: &TLS{}},
		"no such file":    {Engine: e, TLS: &TLS{Certificates: []service.CertificateFiles{{CertFile: "none", KeyFile: "none"}}}},
		"an old TLS":      {Engine: e, TLS: &TLS{MinVersion: tls.VersionTLS11}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "grpcapi") {
			t.Errorf("%s: got %v, want an error of ours", name, err)
		}
	}
}
