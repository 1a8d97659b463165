package site

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// CertificateFiles are the paths of a certificate and its key. Both is a file with both of them, which HAProxy needs.
type CertificateFiles struct{ Cert, Key, Both string }

// Certificate writes a certificate with a P-256 key for the servers of the site.
func (s *Site) Certificate() (CertificateFiles, error) {
	f := CertificateFiles{
		Cert: filepath.Join(s.Dir, "tls.crt"), Key: filepath.Join(s.Dir, "tls.key"), Both: filepath.Join(s.Dir, "tls.pem"),
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return f, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{LoadHost}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return f, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return f, err
	}
	certText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyText := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	for name, text := range map[string][]byte{f.Cert: certText, f.Key: keyText, f.Both: append(certText, keyText...)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return f, err
		}
	}
	return f, nil
}
