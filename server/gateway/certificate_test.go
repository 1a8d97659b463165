package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
)

func writeCA(t testing.TB, path string, cert *x509.Certificate) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// makeCertificate writes a certificate for hosts that names its owner, and its key.
func makeCertificate(t testing.TB, dir, owner string, hosts ...string) CertificateFiles {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: owner}, DNSNames: hosts,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := CertificateFiles{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	for path, block := range map[string]*pem.Block{
		files.CertFile: {Type: "CERTIFICATE", Bytes: cert}, files.KeyFile: {Type: "PRIVATE KEY", Bytes: secret},
	} {
		// Replace the old file by a new one.
		if err := os.WriteFile(path+".new", pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// owner returns the owner of the certificate that a new connection gets.
func owner(t testing.TB, g *Gateway, host string) string {
	t.Helper()
	conn, err := tls.Dial("tcp", addrOf(g), &tls.Config{ServerName: host, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestCertificatesAreReloadedUnderLoad(t *testing.T) {
	dir := t.TempDir()
	files := makeCertificate(t, dir, "old", "localhost")
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	var book logBook
	c := before(up.URL)
	c.Logger = book.logger()
	c.Listeners = []Listener{{TLS: &TLS{Certificates: []CertificateFiles{files}, CheckFilesEvery: 5 * time.Millisecond}}}
	g := start(t, c)

	var stop atomic.Bool
	var requests, failed atomic.Int64
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			p := new(http.Protocols)
			p.SetHTTP1(i%2 == 0)
			p.SetHTTP2(i%2 == 1)
			for !stop.Load() {
				tr := &http.Transport{Protocols: p, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
				for range 5 {
					res, err := (&http.Client{Transport: tr}).Get("https://" + addrOf(g))
					if err != nil {
						failed.Add(1)
						t.Error(err)
						break
					}
					body, err := io.ReadAll(res.Body)
					res.Body.Close()
					requests.Add(1)
					if err != nil || string(body) != "ok" {
						failed.Add(1)
						t.Errorf("got %q, %v", body, err)
					}
				}
				tr.CloseIdleConnections()
			}
		})
	}
	if got := owner(t, g, "localhost"); got != "old" {
		t.Errorf("at first the certificate of %s, want old", got)
	}
	for _, name := range []string{"new", "newer", "newest"} {
		makeCertificate(t, dir, name, "localhost")
		await.True(t, "the certificate of "+name, func() bool { return owner(t, g, "localhost") == name })
	}
	// After invalid files, the old certificate stays in use.
	for _, bad := range []string{"", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		was := g.Stats().CertificatesFailed
		if err := os.WriteFile(files.CertFile, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		await.True(t, "the files are looked at", func() bool { return g.Stats().CertificatesFailed > was+1 })
		if got := owner(t, g, "localhost"); got != "newest" {
			t.Errorf("with bad files the certificate of %s, want newest", got)
		}
	}
	if err := g.Reload(); err == nil {
		t.Error("Reload of bad files: no error")
	}
	if n := len(book.each(t, "certificates not loaded, the old ones stay in use")); n == 0 || n > 6 {
		t.Errorf("the log has %d lines about invalid files, want each once:\n%s", n, &book)
	}
	makeCertificate(t, dir, "last", "localhost")
	if err := g.Reload(); err != nil {
		t.Error(err)
	}
	if got := owner(t, g, "localhost"); got != "last" {
		t.Errorf("at last the certificate of %s, want last", got)
	}
	stop.Store(true)
	all.Wait()
	if requests.Load() == 0 || failed.Load() != 0 {
		t.Errorf("%d of %d requests failed, want none", failed.Load(), requests.Load())
	}
}

func TestCertificateIsChosenByName(t *testing.T) {
	one := makeCertificate(t, t.TempDir(), "one", "one.example", "*.one.example")
	two := makeCertificate(t, t.TempDir(), "two", "two.example")
	up := newRecorder(t)
	c := before(up.URL)
	c.Listeners = []Listener{{TLS: &TLS{Certificates: []CertificateFiles{one, two}, MinVersion: tls.VersionTLS13}}}
	g := start(t, c)
	for host, want := range map[string]string{
		"one.example": "one", "a.one.example": "one", "two.example": "two", "three.example": "one", "": "one",
	} {
		if got := owner(t, g, host); got != want {
			t.Errorf("%s gets the certificate of %s, want %s", host, got, want)
		}
	}
	if conn, err := tls.Dial("tcp", addrOf(g), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.2 is spoken, want 1.3 alone")
	}
}

func TestFailedHandshakesAreRateLimitedInLog(t *testing.T) {
	files := makeCertificate(t, t.TempDir(), "one", "localhost")
	up := newRecorder(t)
	var book logBook
	c := before(up.URL)
	c.Logger = book.logger()
	c.Listeners = []Listener{{TLS: &TLS{Certificates: []CertificateFiles{files}}}}
	g := start(t, c)
	begun := time.Now()
	for range 200 {
		conn, r := dial(t, g)
		send(t, conn, "GET / HTTP/1.1\r\n\r\n")
		_, _ = io.ReadAll(r)
		_ = conn.Close()
	}
	count := func() int { return strings.Count(book.String(), "TLS handshake error") }
	await.True(t, "the log has it", func() bool { return count() > 0 })
	// So many in each second that has begun, including the first and the last.
	n, most := count(), clientErrorLines*(2+int(time.Since(begun)/time.Second))
	if n > most {
		t.Errorf("%d lines about 200 handshakes in %v, want at most %d", n, time.Since(begun), most)
	}
}
