package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

const tokenSecret = "0123456789abcdef0123456789abcdef"

// signToken returns a JSON Web Token for a user, signed with a secret.
func signToken(user, secret string) string {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." +
		encode(fmt.Appendf(nil, `{"sub":%q,"exp":%d}`, user, time.Now().Add(time.Hour).Unix()))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}

// certificate writes a certificate for 127.0.0.1 and its key, and returns who believes it.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	writeFile(t, filepath.Join(dir, "tls.crt"), string(cert))
	writeFile(t, filepath.Join(dir, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return pool
}

// A configuration with TLS and tokens: users are who their tokens say, over HTTP/2, and a forged token is as good as
// none.
func TestTokensIdentifyUsersOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certificate(t, dir)
	writeFile(t, filepath.Join(dir, "jwt.txt"), tokenSecret+"\n")
	writeFile(t, filepath.Join(dir, "rules.yaml"), "rules:\n  - { id: per-user, key: [user], limits: [2/h], fallback: deny }\n")
	writeFile(t, filepath.Join(dir, "headgate.yaml"), `
rules: rules.yaml
identity: { jwt: { secret_file: jwt.txt }, user_from: token }
gateway:
  listeners:
    - addr: 127.0.0.1:0
      tls: { certificates: { cert_file: tls.crt, key_file: tls.key }, min_version: 1.3 }
`)
	p := serve(t, "--config", filepath.Join(dir, "headgate.yaml"))
	as := func(bearer string) *client {
		c := newClient(t, p.gateway, "Authorization", "Bearer "+bearer)
		c.url = "https://" + p.gateway
		transport := c.http.Transport.(*http.Transport)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
		transport.ForceAttemptHTTP2 = true
		return c
	}
	alice := as(signToken("alice", tokenSecret))
	if r := alice.must("/"); r.ProtoMajor != 2 || r.TLS.Version != tls.VersionTLS13 || r.StatusCode != 200 {
		t.Errorf("got %s, %s over %s", r.Status, r.Proto, tls.VersionName(r.TLS.Version))
	}
	alice.want(1, 200)
	alice.want(1, 429)
	as(signToken("bob", tokenSecret)).want(2, 200)
	as(signToken("carol", "another secret, as long as it ought")).want(1, 403) // she is nobody
	as("nonsense").want(1, 403)
}

func TestUnreadableTokenKeysAreReported(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	writeFile(t, path, "identity: { jwt: { jwks_url: 'http://127.0.0.1:1/keys' } }\n")
	p := serve(t, onFreePort("--config", path)...)
	code, s := p.status()
	if code != 200 || !s.Degraded || s.Identity.Error == "" {
		t.Errorf("got %d %+v, want ready, degraded, and why", code, s)
	}
	newClient(t, p.gateway, "Authorization", "Bearer "+signToken("alice", tokenSecret)).want(1, 200)
}
