package doctor_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/cmd/headgate/internal/doctor"
)

// now is the time of these tests.
var now = time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)

// examine runs all checks with a configuration file. Listeners that the file does not set are off.
func examine(t *testing.T, o doctor.Options, yaml string) doctor.Report {
	t.Helper()
	flags := map[string]string{"config": write(t, "headgate.yaml", yaml)}
	for _, name := range []string{"gateway_addr", "grpc_addr", "resp_addr", "admin_addr"} {
		if !strings.Contains(yaml, name) && !(name == "gateway_addr" && strings.Contains(yaml, "listeners:")) {
			flags[strings.ReplaceAll(name, "_", "-")] = "off"
		}
	}
	if !strings.Contains(yaml, "api_addr") {
		flags["api-addr"] = "127.0.0.1:0"
	}
	if !strings.Contains(yaml, "data_dir") {
		flags["data-dir"] = t.TempDir()
	}
	return doctor.Run(t.Context(), config.Inputs{Flags: flags}, o)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// want fails the test unless the report has a result with this status, and these words in its check, detail or fix.
func want(t *testing.T, report doctor.Report, status doctor.Status, words ...string) {
	t.Helper()
	var all strings.Builder
next:
	for _, r := range report.Checks {
		text := r.Check + ": " + r.Detail + "; fix: " + r.Fix
		fmt.Fprintf(&all, "\n%s %s", r.Status, text)
		for _, word := range words {
			if !strings.Contains(text, word) {
				continue next
			}
		}
		if r.Status == status {
			if (status == doctor.Problem || status == doctor.Warning) != (r.Fix != "") {
				t.Errorf("%s %s: got the fix %q, want one for problems and warnings only", r.Status, r.Check, r.Fix)
			}
			return
		}
	}
	t.Errorf("got %s\nwant %s with %q", all.String(), status, words)
}

func TestInvalidConfigurationIsAProblem(t *testing.T) {
	report := examine(t, doctor.Options{}, "store: nowhere\n")
	want(t, report, doctor.Problem, "configuration", "store", "docs/config.md")
	if report.Problems != 1 || len(report.Checks) != 1 {
		t.Errorf("got %+v, want one problem and no further check", report)
	}
}

func TestAddressInUseIsAProblem(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	report := examine(t, doctor.Options{}, "resp_addr: "+l.Addr().String()+"\ngrpc_addr: 192.0.2.1:0\n")
	want(t, report, doctor.Problem, "resp_addr", "address already in use", "set another resp_addr")
	want(t, report, doctor.Problem, "grpc_addr", "an address of this host")
	want(t, report, doctor.OK, "api_addr", "is free")
}

func TestOpenListenersAreWarnings(t *testing.T) {
	report := examine(t, doctor.Options{}, "api_addr: \":0\"\ngossip_addr: \":0\"\n")
	want(t, report, doctor.Warning, "api_addr", "without a token", "api_token_file")
	want(t, report, doctor.Warning, "gossip_addr", "not encrypted", "gossip_key_file")
	token := write(t, "token", "a-token-of-32-characters-or-more")
	report = examine(t, doctor.Options{}, "api_addr: \":0\"\napi_token_file: "+token+"\n")
	want(t, report, doctor.OK, "exposure", "no listener")
}

func TestDescriptorsAreCompared(t *testing.T) {
	report := examine(t, doctor.Options{}, "service: { max_conns: 1000000 }\n")
	want(t, report, doctor.Warning, "descriptors", "1000128", "LimitNOFILE=1000128")
	report = examine(t, doctor.Options{}, "service: { max_conns: 16 }\n")
	want(t, report, doctor.OK, "descriptors", "144 of at most")
}

func TestUnreadableSecretIsAProblem(t *testing.T) {
	report := examine(t, doctor.Options{}, "key_secret_file: "+write(t, "secret", "short")+"\n")
	want(t, report, doctor.Problem, "secrets", "has 5 bytes", "openssl rand")
}

// newCertificate writes a certificate that is valid until a time, and its key.
func newCertificate(t *testing.T, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "api.example.com"},
		NotBefore: now.AddDate(0, -6, 0), NotAfter: until,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, data []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
	}
	return write(t, "tls.crt", block("CERTIFICATE", der)), write(t, "tls.key", block("PRIVATE KEY", pkcs8))
}

func TestCertificatesAreCheckedBeforeTheyExpire(t *testing.T) {
	_, otherKey := newCertificate(t, now)
	for _, c := range []struct {
		name   string
		until  time.Time
		key    string // instead of its own
		status doctor.Status
		words  string
	}{
		{"valid", now.AddDate(0, 3, 0), "", doctor.OK, "expires on 2027-05-01"},
		{"expires soon", now.AddDate(0, 0, 10), "", doctor.Warning, "in 10 days"},
		{"expired", now.AddDate(0, 0, -1), "", doctor.Problem, "expired on 2027-01-30"},
		{"of another key", now.AddDate(0, 3, 0), otherKey, doctor.Problem, "private key does not match"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cert, key := newCertificate(t, c.until)
			if c.key != "" {
				key = c.key
			}
			yaml := fmt.Sprintf("upstream: http://127.0.0.1:1\ngateway:\n  listeners:\n    - addr: 127.0.0.1:0\n"+
				"      tls: { certificates: [{ cert_file: %s, key_file: %s }] }\n", cert, key)
			report := examine(t, doctor.Options{Now: func() time.Time { return now }}, yaml)
			want(t, report, c.status, "gateway.listeners[0].tls.certificates[0]", c.words)
		})
	}
}

func TestUnreachableUpstreamIsAWarning(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	yaml := "gateway_addr: 127.0.0.1:0\nupstream: http://" + l.Addr().String() + "\n"
	want(t, examine(t, doctor.Options{}, yaml), doctor.OK, "upstreams", "accepts connections")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want(t, examine(t, doctor.Options{}, yaml), doctor.Warning, "upstreams", "connection refused", "start the service")
}

func TestRulesFileIsChecked(t *testing.T) {
	good := write(t, "good.yaml", "rules: [{ id: a, key: [ip], limits: [1/s] }]\n")
	want(t, examine(t, doctor.Options{}, "rules: "+good+"\n"), doctor.OK, "rules", "good.yaml is valid")
	bad := write(t, "bad.yaml", "rules: [{ id: a, key: [ip], limits: [fast] }]\n")
	want(t, examine(t, doctor.Options{}, "rules: "+bad+"\n"), doctor.Problem, "rules", "bad.yaml:1", "rules lint")
}

func TestInterruptedRunSkipsTheRest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := doctor.Options{OnStart: func(check string) {
		if check == "clock" {
			cancel()
		}
	}}
	flags := map[string]string{
		"gateway-addr": "off", "admin-addr": "off", "grpc-addr": "off", "resp-addr": "off",
		"api-addr": "127.0.0.1:0", "data-dir": t.TempDir(),
	}
	report := doctor.Run(ctx, config.Inputs{Flags: flags}, o)
	want(t, report, doctor.OK, "api_addr")
	want(t, report, doctor.Skipped, "store", "interrupted")
}
