package redisstore

import (
	"net/url"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

func TestTLSByOptions(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{TLS: true})
	s := open(t, server.URL(), Options{TLSConfig: server.Certificates().ClientConfig()})
	if err := take(within(t, unhurried), s, "alice"); err != nil {
		t.Error(err)
	}
}

func TestMismatchedTLSIsRefused(t *testing.T) {
	t.Parallel()
	secured := redistest.Standalone(t, redistest.Options{TLS: true})
	plain := redistest.Standalone(t, redistest.Options{})
	strict := redistest.Standalone(t, redistest.Options{TLS: true, Config: []string{"tls-auth-clients yes"}})
	ca := "tls_ca_file=" + url.QueryEscape(secured.Certificates().CAFile)
	slow := Options{DialTimeout: unhurried} // a handshake takes its time on a busy machine

	err := whyNotOpen(t, secured.URL()+"?"+ca+"&tls_server_name=redis.example.com", slow)
	says(t, err, secured.Addr(), "certificate for another name", "tls_server_name")
	if !topology.IsPermanent(err) {
		t.Error("a wrong name counts as something that passes")
	}
	notOpen(t, secured.URL(), slow, secured.Addr(), "unknown authority", "tls_ca_file")
	notOpen(t, strings.Replace(plain.URL(), "redis:", "rediss:", 1), Options{}, plain.Addr(), "TLS", "redis://")
	notOpen(t, strings.Replace(secured.URL(), "rediss:", "redis:", 1), slow, secured.Addr(), "closes new connections", "rediss://")
	strictCA := "?tls_ca_file=" + url.QueryEscape(strict.Certificates().CAFile)
	notOpen(t, strict.URL()+strictCA, slow, strict.Addr(), "tls_cert_file")
	pair := "&tls_cert_file=" + url.QueryEscape(strict.Certificates().CertFile) + "&tls_key_file=" + url.QueryEscape(strict.Certificates().KeyFile)
	if _, err := tryOpen(t, strict.URL()+strictCA+pair, slow); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
}
