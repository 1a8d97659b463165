package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write makes a certificate for a host, and writes it and its key.
func write(t *testing.T, dir, host string) Files {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := Files{CertFile: filepath.Join(dir, host+".pem"), KeyFile: filepath.Join(dir, host+".key")}
	for path, block := range map[string]*pem.Block{
		files.CertFile: {Type: "CERTIFICATE", Bytes: der}, files.KeyFile: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestInvalidFilesKeepOldCertificatesAndLogOnce(t *testing.T) {
	dir := t.TempDir()
	a, b := write(t, dir, "a.example"), write(t, dir, "b.example")
	s, err := Load([]Files{a, b}, b.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	served := func(host string) string {
		c, err := s.Get(&tls.ClientHelloInfo{
			ServerName: host, SupportedVersions: []uint16{tls.VersionTLS13}, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
		})
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.Subject.CommonName
	}
	for host, want := range map[string]string{"a.example": "a.example", "b.example": "b.example", "c.example": "a.example"} {
		if got := served(host); got != want {
			t.Errorf("%s: got the certificate of %s, want %s", host, got, want)
		}
	}
	if err := os.WriteFile(a.KeyFile, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := s.Authorities()
	for range 3 {
		if err := s.Reload(log); err == nil {
			t.Error("junk: got no error")
		}
	}
	if got := strings.Count(said.String(), "the old ones stay in use"); got != 1 {
		t.Errorf("the error was logged %d times, want once", got)
	}
	if s.Failed() != 3 || s.Loaded() != 1 || served("a.example") != "a.example" || s.Authorities() != before {
		t.Errorf("got %d failed and %d loaded, want 3 and 1, and the old in use", s.Failed(), s.Loaded())
	}
	write(t, dir, "a.example")
	if err := s.Reload(log); err != nil || s.Loaded() != 2 {
		t.Errorf("good again: got %v, loaded %d times; want 2", err, s.Loaded())
	}
	if err := s.Reload(log); err != nil || s.Loaded() != 2 {
		t.Errorf("unchanged: got %v, loaded %d times; want it left alone", err, s.Loaded())
	}
	var files []string
	s.Each(func(file string, _ *tls.Certificate) { files = append(files, file) })
	if len(files) != 2 || files[0] != a.CertFile {
		t.Errorf("got %q, want both files", files)
	}
}

func TestInvalidAuthoritiesAreRefused(t *testing.T) {
	dir := t.TempDir()
	a := write(t, dir, "a.example")
	for _, file := range []string{a.KeyFile, filepath.Join(dir, "none")} {
		if _, err := Load([]Files{a}, file); err == nil {
			t.Errorf("%s: got no error", filepath.Base(file))
		}
	}
	if _, err := Load(nil, ""); err == nil {
		t.Error("no certificate: got no error")
	}
	s, err := Load([]Files{a}, "")
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Config(0); c.MinVersion != tls.VersionTLS12 || c.ClientAuth != tls.NoClientCert {
		t.Errorf("without authorities: got version %x and %v, want TLS 1.2 and no certificates of clients", c.MinVersion, c.ClientAuth)
	}
}
