package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/headgate/headgate/internal/await"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// A caller asks the decision service over TLS. It is known by the certificate in a directory, "" for none, and believes
// the one in another.
type caller struct {
	t              *testing.T
	p              *process
	known, believe string
}

// run returns what a program says that may well fail.
func (c *caller) run(name string, args ...string) (string, error) {
	c.t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		c.t.Fatalf("this test needs %s on the PATH: make test installs it", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return strings.Join(strings.Fields(string(out)), " "), err
}

func (c *caller) api() (string, error) {
	args := []string{"-sS", "-w", " HTTP/%{http_version}", "--cacert", filepath.Join(c.believe, "tls.crt"), "-d", `{"client":{"userId":"alice"}}`}
	if c.known != "" {
		args = append(args, "--cert", filepath.Join(c.known, "tls.crt"), "--key", filepath.Join(c.known, "tls.key"))
	}
	out, err := c.run("curl", append(args, "https://"+c.p.api+"/v1/ratelimit")...)
	if err == nil && (!strings.Contains(out, `"passed":true`) || !strings.HasSuffix(out, " HTTP/2")) {
		err = fmt.Errorf("got %s, want it to pass over HTTP/2", out)
	}
	return out, err
}

func (c *caller) resp() (string, error) {
	host, port, _ := strings.Cut(c.p.resp, ":")
	args := []string{"-h", host, "-p", port, "--tls", "--cacert", filepath.Join(c.believe, "tls.crt")}
	if c.known != "" {
		args = append(args, "--cert", filepath.Join(c.known, "tls.crt"), "--key", filepath.Join(c.known, "tls.key"))
	}
	out, err := c.run("redis-cli", append(args, "HG.TAKE", "per-user", "alice")...)
	if err == nil && !strings.HasPrefix(out, "1 ") { // it does not always fail when it fails
		err = errors.New(out)
	}
	return out, err
}

func (c *caller) grpc() (string, error) {
	text, err := os.ReadFile(filepath.Join(c.believe, "tls.crt"))
	if err != nil {
		return "", err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(text)
	if c.known != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(c.known, "tls.crt"), filepath.Join(c.known, "tls.key"))
		if err != nil {
			return "", err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	conn, err := grpc.NewClient(c.p.grpc, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	response, err := headgatev1.NewRateLimiterClient(conn).RateLimit(ctx, &headgatev1.RateLimitRequest{Client: &headgatev1.Client{UserId: "alice"}})
	return fmt.Sprint(response), err
}

// each asks over all protocols, and says which answered.
func (c *caller) each() map[string]error {
	results := map[string]error{}
	for name, ask := range map[string]func() (string, error){"api": c.api, "grpc": c.grpc, "resp": c.resp} {
		_, results[name] = ask()
	}
	return results
}

// Every listener of the decision service speaks TLS, knows callers by their certificates, and takes new certificates
// into use.
func TestEveryProtocolUsesTheConfiguredTLS(t *testing.T) {
	t.Parallel()
	server, caller1, outsider := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{server, caller1, outsider} {
		certificate(t, dir)
	}
	const settings = "    tls: { certificates: [{ cert_file: tls.crt, key_file: tls.key }], client_ca_file: " + "CALLERS" + ", min_version: 1.3 }\n"
	config := "service:\n"
	for _, name := range []string{"api", "grpc", "resp"} {
		config += "  " + name + ":\n" + strings.ReplaceAll(settings, "CALLERS", filepath.Join(caller1, "tls.crt"))
	}
	writeFile(t, filepath.Join(server, "headgate.yaml"), config)
	p := serve(t, "--gateway-addr", "off", "--rules", rulesFile(t, "rules: [{ id: per-user, key: [user], limits: [1000/h] }]\n"),
		"--config", filepath.Join(server, "headgate.yaml"))

	for name, err := range (&caller{t, p, caller1, server}).each() {
		if err != nil {
			t.Errorf("%s, with a certificate that is vouched for: got %v", name, err)
		}
	}
	for who, c := range map[string]*caller{
		"without a certificate":       {t, p, "", server},
		"with an unknown certificate": {t, p, outsider, server},
		"which trusts another CA":     {t, p, caller1, outsider},
	} {
		for name, err := range c.each() {
			if err == nil {
				t.Errorf("%s, %s: got an answer, want none", name, who)
			}
		}
	}
	for name, args := range map[string][]string{
		"api":  {"curl", "-sS", "-f", "-d", "{}", "http://" + p.api + "/v1/ratelimit"},
		"resp": {"redis-cli", "-u", "redis://" + p.resp, "-e", "PING"},
	} {
		if out, err := (&caller{t: t}).run(args[0], args[1:]...); err == nil && !strings.Contains(out, "rror") {
			t.Errorf("%s, without TLS: got %s, want no answer", name, out)
		}
	}

	fresh := t.TempDir()
	certificate(t, fresh)
	for _, file := range []string{"tls.crt", "tls.key"} {
		text, err := os.ReadFile(filepath.Join(fresh, file))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(server, file), string(text))
	}
	p.signal(syscall.SIGHUP)
	await.NoError(t, "the new certificates to be in use", func() error {
		var errs []error
		for name, err := range (&caller{t, p, caller1, fresh}).each() {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
			}
		}
		return errors.Join(errs...)
	})
	if code := p.stop(); code != 0 {
		t.Errorf("got exit %d, want 0", code)
	}
}

// Who has the token of the administrator may reset keys, whether or not callers need a token.
func TestAdminTokenResetsKeys(t *testing.T) {
	t.Parallel()
	const admin = "the-token-of-the-administrator"
	path := filepath.Join(t.TempDir(), "admin.txt")
	writeFile(t, path, admin+"\n")
	p := serve(t, "--gateway-addr", "off", "--rules", rulesFile(t, serviceRules), "--admin-token-file", path)
	if got := redisCLI(t, p.resp, "HG.TAKE", "per-user", "alice"); !strings.HasPrefix(got, "1 3 2 ") {
		t.Errorf("got %s, want 1 3 2: callers need no token", got)
	}
	if got := redisCLI(t, p.resp, "HG.RESET", "per-user", "alice"); !strings.Contains(got, "NOAUTH") && !strings.Contains(got, "NOPERM") {
		t.Errorf("a reset without a token: got %s, want it refused", got)
	}
	if got := redisCLI(t, p.resp, "-a", admin, "HG.RESET", "per-user", "alice"); got != "OK" {
		t.Errorf("a reset with the token: got %s, want OK", got)
	}
	if got := redisCLI(t, p.resp, "HG.TAKE", "per-user", "alice"); !strings.HasPrefix(got, "1 3 2 ") {
		t.Errorf("got %s, want 1 3 2: as good as new", got)
	}
	for series, want := range map[string]float64{
		`headgate_resp_decisions_total{result="allowed"}`: 2,
		`headgate_resp_errors_total`:                      1,
	} {
		if got := p.metric(series); got != want {
			t.Errorf("%s: got %v, want %v", series, got, want)
		}
	}
}
