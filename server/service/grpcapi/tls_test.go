package grpcapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/logbook"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
	"github.com/headgate/headgate/server/service"
)

// An authority signs certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

// sign writes a certificate and its key into a directory.
func (a *authority) sign(dir, owner string) service.CertificateFiles {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: owner}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	files := service.CertificateFiles{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	write(a.t, files.CertFile, "CERTIFICATE", der)
	write(a.t, files.KeyFile, "PRIVATE KEY", secret)
	return files
}

// write puts a new file in the place of the old, as a careful operator does.
func write(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestCertificatesAndAuthoritiesAreReloaded(t *testing.T) {
	dir, clientDir := t.TempDir(), t.TempDir()
	servers, clients := newAuthority(t, "servers"), newAuthority(t, "clients")
	files := servers.sign(dir, "first")
	caFile := filepath.Join(dir, "clients.pem")
	write(t, caFile, "CERTIFICATE", clients.cert.Raw)
	log := new(logbook.Book)
	s, address := start(t, Config{
		TLS: &TLS{Certificates: []service.CertificateFiles{files}, ClientCAFile: caFile, CheckFilesEvery: time.Hour}, Logger: log.Logger(),
	})
	mine := clients.sign(clientDir, "caller")
	pair, err := tls.LoadX509KeyPair(mine.CertFile, mine.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	call := func(c *tls.Config) (owner string, err error) {
		c.RootCAs = servers.pool
		c.VerifyConnection = func(state tls.ConnectionState) error {
			owner = state.PeerCertificates[0].Subject.CommonName
			return nil
		}
		conn := dial(t, address, grpc.WithTransportCredentials(credentials.NewTLS(c)))
		defer func() { _ = conn.Close() }()
		_, err = headgatev1.NewRateLimiterClient(conn).RateLimit(patient(t), ask("nina", "/"))
		return owner, err
	}
	with := func() *tls.Config { return &tls.Config{Certificates: []tls.Certificate{pair}} }
	if owner, err := call(with()); err != nil || owner != "first" {
		t.Fatalf("got %q, %v; want the first certificate", owner, err)
	}
	if _, err := call(&tls.Config{}); status.Code(err) != codes.Unavailable {
		t.Errorf("no certificate: got %v, want none served", err)
	}
	conn := dial(t, address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if _, err := headgatev1.NewRateLimiterClient(conn).RateLimit(patient(t), ask("nina", "/")); status.Code(err) != codes.Unavailable {
		t.Errorf("no TLS: got %v, want none served", err)
	}

	servers.sign(dir, "second")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if owner, err := call(with()); err != nil || owner != "second" {
		t.Errorf("got %q, %v; want the second certificate", owner, err)
	}
	if err := os.WriteFile(files.CertFile, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil || !strings.Contains(log.String(), "the old ones stay in use") {
		t.Errorf("junk: got %v and log %q, want both to say so", err, log.String())
	}
	if owner, err := call(with()); err != nil || owner != "second" {
		t.Errorf("after junk: got %q, %v; want the second certificate still", owner, err)
	}
	servers.sign(dir, "third")
	write(t, caFile, "CERTIFICATE", newAuthority(t, "others").cert.Raw)
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, err := call(with()); status.Code(err) != codes.Unavailable {
		t.Errorf("a certificate of authorities that are no more: got %v, want none served", err)
	}
}
