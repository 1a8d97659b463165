package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/control/signature"
)

// The rules service over TLS, and a node that believes its certificate alone and takes webhooks.
func TestRulesServiceWithTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certificate(t, dir)
	if pool == nil {
		t.Fatal("no certificate")
	}
	const secret = "a secret of a webhook, as long as it has to be"
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("admin.txt", testAdminToken)
	write("hook.txt", strings.ReplaceAll(secret, " ", "-"))
	config := write("service.yaml", "admin_token_file: admin.txt\nadmin: { tls: { certificates: [{ cert_file: tls.crt, key_file: tls.key }] } }\n")
	service := serve(t, "--gateway-addr", "off", "--config", config)
	client := rulesServiceAt(t, remote.Config{URL: "https://" + service.admin, Token: testAdminToken, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, Timeout: patience})
	putRule(t, client, "per-user", fmt.Sprintf(perUserRule, 100))
	config = write("node.yaml", "rules_service: { ca_file: tls.crt, hook_secret_file: hook.txt }\n")
	node := serve(t, "--gateway-addr", "off", "--config", config, "--control", "https://"+service.admin, "--token-file", nodeToken(t, client))
	waitLimit(t, node, "x", 100)

	hook := func(key string, now time.Time) int {
		t.Helper()
		body := []byte(`{"event":"revision","namespace":"default","revision":1,"delivery":"d1"}`)
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+node.admin+"/v1/hooks/rules", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(signature.Header, signature.Sign([]byte(strings.ReplaceAll(key, " ", "-")), body, now))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	now := time.Now()
	request := func() float64 {
		var sum float64
		for _, result := range []string{"unchanged", "delta", "whole"} {
			sum += node.metric(`headgate_rules_fetches_total{result="` + result + `"}`)
		}
		return sum
	}
	before := request()
	for _, tt := range []struct {
		key  string
		at   time.Time
		want int
	}{
		{secret, now, http.StatusAccepted},
		{secret, now, http.StatusConflict},
		{"another secret that nobody knows of", now, http.StatusUnauthorized},
		{secret, now.Add(-time.Hour), http.StatusUnauthorized},
	} {
		if got := hook(tt.key, tt.at); got != tt.want {
			t.Errorf("a webhook with %q at %s: got %d, want %d", tt.key, tt.at, got, tt.want)
		}
	}
	await.NoError(t, "the node to ask", func() error {
		if got := request(); got <= before {
			return fmt.Errorf("it has asked %v times", got)
		}
		return nil
	})
}
