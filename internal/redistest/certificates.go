package redistest

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
	"testing"
	"time"
)

// Certificates are the certificate files of a server with TLS and of its clients.
type Certificates struct {
	CAFile   string // the CA certificate
	CertFile string // the certificate of the server, for 127.0.0.1 and localhost; clients can use it too
	KeyFile  string // the key of CertFile
	pool     *x509.CertPool
}

// ClientConfig returns a configuration that trusts the server. It has no client certificate, which a server needs only
// if its Options.Config says "tls-auth-clients yes".
func (c *Certificates) ClientConfig() *tls.Config {
	return &tls.Config{RootCAs: c.pool, ServerName: host, MinVersion: tls.VersionTLS12}
}

// config returns the lines of redis.conf that enable TLS on a server's port.
func (c *Certificates) config() []string {
	return []string{
		"tls-ca-cert-file " + c.CAFile,
		"tls-cert-file " + c.CertFile,
		"tls-key-file " + c.KeyFile,
		"tls-auth-clients no",
		"tls-replication yes",
	}
}

func newCertificates(t testing.TB) *Certificates {
	t.Helper()
	dir := t.TempDir()
	c := &Certificates{
		CAFile:   filepath.Join(dir, "ca.pem"),
		CertFile: filepath.Join(dir, "cert.pem"),
		KeyFile:  filepath.Join(dir, "key.pem"),
		pool:     x509.NewCertPool(),
	}
	if err := c.create(); err != nil {
		t.Fatalf("redistest: create certificates: %v", err)
	}
	return c
}

// create creates the files.
func (c *Certificates) create() error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := template(1, "redistest CA")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	server := template(2, "redistest server")
	server.KeyUsage = x509.KeyUsageDigitalSignature
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	server.IPAddresses, server.DNSNames = []net.IP{net.ParseIP(host)}, []string{"localhost"}

	caCert, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return err
	}
	cert, err := x509.CreateCertificate(rand.Reader, server, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	parsed, err := x509.ParseCertificate(caCert)
	if err != nil {
		return err
	}
	c.pool.AddCert(parsed)
	for _, f := range []struct {
		path, kind string
		der        []byte
	}{
		{c.CAFile, "CERTIFICATE", caCert},
		{c.CertFile, "CERTIFICATE", cert},
		{c.KeyFile, "PRIVATE KEY", pkcs8},
	} {
		if err := os.WriteFile(f.path, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// template returns a certificate that is valid even if the clock of a server is wrong by days.
func template(serial int64, name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.AddDate(0, -1, 0),
		NotAfter:     now.AddDate(0, 1, 0),
	}
}
