package config

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/gateway"
	"github.com/headgate/headgate/server/service"
)

func TestDecisionServiceIsReadFromTheFile(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := defaults()
	if err := c.parseFile("/etc/full.yaml", data); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*ServiceTLS{"a": c.Service.API.TLS, "g": c.Service.GRPC.TLS, "r": c.Service.RESP.TLS} {
		want := &service.TLS{
			Certificates: []service.CertificateFiles{{CertFile: "/etc/" + name + ".crt", KeyFile: "/etc/" + name + ".key"}}, ClientCAFile: "/etc/ca.pem",
			MinVersion: tls.VersionTLS13, CheckFilesEvery: 4 * time.Second,
		}
		if got := l.ServiceOptions(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if c.EnvoyConfig != "/etc/envoy" || c.APITokenFile != "/etc/token.txt" {
		t.Errorf("got %s and %s, want them as seen from the file", c.EnvoyConfig, c.APITokenFile)
	}
	s := c.Service
	if s.MaxConns != 1 || s.MaxBody != 2<<10 || s.MaxBatch != 3 || !s.GRPC.NoStore || s.GRPC.MaxStreams != 5 || s.GRPC.CallTimeout != 6*time.Second {
		t.Errorf("got %+v", s)
	}
	if s.RESP.OnFailure != headgate.Local || s.RESP.IdleTimeout != DurationOff {
		t.Errorf("got %+v", s.RESP)
	}
	if e := s.Envoy; !e.NoCountDenied || !e.ResponseHeaders || !e.DynamicMetadata || !e.MergeDomains || e.OnFailure != headgate.Closed {
		t.Errorf("got %+v", s.Envoy)
	}
	if delay, timeout := c.Drain(); delay != 9*time.Second || timeout != 12*time.Second {
		t.Errorf("got a drain of %s and %s, want 9s and 12s", delay, timeout)
	}
	c = defaults()
	if delay, timeout := c.Drain(); delay != 0 || timeout != gateway.DefaultDrainTimeout || c.Service.GRPC.TLS.ServiceOptions() != nil || c.ServiceOff() {
		t.Errorf("got %s, %s, %v and %t without a file", delay, timeout, c.Service.GRPC.TLS.ServiceOptions(), c.ServiceOff())
	}
}

func TestAdminTokenIsReadFromItsFile(t *testing.T) {
	c := defaults()
	if token, err := c.ResetToken(); token != nil || err != nil {
		t.Errorf("got %v, %v without a file, want none", token, err)
	}
	c.AdminTokenFile = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(c.AdminTokenFile, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ResetToken(); err == nil || !strings.HasPrefix(err.Error(), "admin-token-file: ") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
	if err := os.WriteFile(c.AdminTokenFile, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := c.ResetToken(); err != nil || !token.Is("0123456789abcdef") {
		t.Errorf("got %v, %v, want the token", token, err)
	}
}

func TestAPITokenIsReadFromItsFile(t *testing.T) {
	c := defaults()
	if token, err := c.Token(); token != nil || err != nil {
		t.Errorf("got %v, %v without a file, want none", token, err)
	}
	c.APITokenFile = filepath.Join(t.TempDir(), "token")
	if _, err := c.Token(); err == nil || !strings.HasPrefix(err.Error(), "api-token-file: read the token: ") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
	if err := os.WriteFile(c.APITokenFile, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := c.Token(); err != nil || !token.Is("0123456789abcdef") {
		t.Errorf("got %v, %v, want the token", token, err)
	}
}
