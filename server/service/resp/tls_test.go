package resp_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/service"
)

// withTLS returns certificates for a server, and how clients call it.
func withTLS(t testing.TB) (*service.TLS, *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := service.CertificateFiles{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	for path, block := range map[string]*pem.Block{
		files.CertFile: {Type: "CERTIFICATE", Bytes: der}, files.KeyFile: {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &service.TLS{Certificates: []service.CertificateFiles{files}}, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
}

// overTLS is dial, over TLS.
func overTLS(t testing.TB, address string, config *tls.Config) *client {
	t.Helper()
	plain := dial(t, address)
	config = config.Clone()
	config.ServerName = "127.0.0.1"
	nc := tls.Client(plain.Conn, config)
	return &client{Conn: nc, t: t, r: bufio.NewReader(nc)}
}

func TestPipelineRepliesOverTLSAreInOrder(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	var calls *tls.Config
	config.TLS, calls = withTLS(t)
	c := overTLS(t, serve(t, config).address, calls)
	const n = 500 // far more than one read returns
	var b strings.Builder
	for i := range n {
		b.WriteString(encode("ECHO", fmt.Sprint("word ", i)))
	}
	long := strings.Repeat("x", 10_000)
	c.send(b.String() + encode("ECHO", long))
	for i := range n {
		if got, want := c.read(), fmt.Sprint("word ", i); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if got := c.read(); got != long {
		t.Errorf("got %d bytes, want %d", len(got), len(long))
	}
	c.wants("0 3 2 -1 6", "CL.THROTTLE", "k", "2", "10", "60")
}

func TestMissingHandshakeIsClosed(t *testing.T) {
	config := onMemory(t, memstore.Options{})
	var calls *tls.Config
	config.TLS, calls = withTLS(t)
	config.Limits.CommandTimeout = 500 * time.Millisecond
	s := serve(t, config)
	silent, plain := dial(t, s.address), dial(t, s.address)
	plain.send(encode("PING"))
	for _, c := range []*client{silent, plain} {
		if got := c.closed(); strings.Contains(got, "PONG") {
			t.Errorf("got %q, want no answer", got)
		}
	}
	half := overTLS(t, s.address, calls)
	if _, err := io.WriteString(half.Conn, "*2\r\n$4\r\n"); err != nil {
		t.Logf("it was closed before the handshake: %v", err) // on a busy machine
	} else if got := half.closed(); got != "" {
		t.Errorf("half a command: got %q", got)
	}
}

func TestShutdownRepliesToSentCommandsOverTLS(t *testing.T) {
	started, land := make(chan struct{}, 1), make(chan struct{})
	store := &slowStore{Store: newStore(t, memstore.Options{}), hook: func(context.Context, string) error {
		started <- struct{}{}
		<-land
		return nil
	}}
	config := onRedis(t, store)
	var calls *tls.Config
	config.TLS, calls = withTLS(t)
	s := serve(t, config)
	idle, busy := overTLS(t, s.address, calls), overTLS(t, s.address, calls)
	idle.wants("PONG", "PING")
	busy.send(encode("CL.THROTTLE", "a", "0", "1", "60"))
	<-started
	busy.send(encode("ECHO", "sent before the end"))
	s.endsFor(t, idle, busy, func() { close(land) })
}
