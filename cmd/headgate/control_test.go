package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/api"
	"github.com/headgate/headgate/control/remote"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/telemetry"
)

const testAdminToken = "the-admin-token-of-the-tests"

// newFile writes a file of the test's own and returns its path.
func newFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// rulesService returns a client of a process that is its admin.
func rulesService(t *testing.T, p *process) *remote.Client {
	t.Helper()
	return rulesServiceAt(t, remote.Config{URL: "http://" + p.admin, Token: testAdminToken, Timeout: patience})
}

func rulesServiceAt(t *testing.T, c remote.Config) *remote.Client {
	t.Helper()
	made, err := remote.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

// nodeToken has the service make a token for nodes, and returns a file with it.
func nodeToken(t *testing.T, at *remote.Client) string {
	t.Helper()
	var made struct{ Secret string }
	token := map[string]any{"id": "nodes", "role": "node", "namespaces": []string{"*"}}
	if err := at.Do(t.Context(), http.MethodPost, "/v1/tokens", nil, token, &made); err != nil {
		t.Fatal(err)
	}
	return newFile(t, "node-token", made.Secret+"\n")
}

func putRule(t *testing.T, at *remote.Client, id, body string) int64 {
	t.Helper()
	revision, err := at.Put(t.Context(), remote.Rules, id, []byte(body), control.Any)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// limitOf asks the decision service of a process how much a user may have under the rule per-user, which takes nothing.
func limitOf(t *testing.T, p *process, user string) (int64, error) {
	t.Helper()
	body := fmt.Sprintf(`{"ruleId":"per-user","client":{"userId":%q},"cost":0}`, user)
	answer, err := http.Post("http://"+p.api+"/v1/ratelimit", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	var said struct{ Limit int64 }
	if answer.StatusCode != http.StatusOK {
		return 0, errors.New(answer.Status)
	}
	return said.Limit, json.NewDecoder(answer.Body).Decode(&said)
}

// waitLimit waits for a limit to be in force.
func waitLimit(t *testing.T, p *process, user string, want int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("a limit of %d for %s", want, user), func() error {
		got, err := limitOf(t, p, user)
		if err == nil && got != want {
			err = fmt.Errorf("got %d", got)
		}
		return err
	})
}

const perUserRule = `{"id":"per-user","key":["user"],"limits":["%d/h"]}`

// freeAddr returns an address that nobody listens on now.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0") // all others listen on 127.0.0.1, so that nobody takes it meanwhile
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// A rules service and a node of it, each a process of its own: what is written at one is in force at the other, and the node
// starts from its file when the service is away.
func TestANodeOfARulesService(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken+"\n")
	addr, state := freeAddr(t), t.TempDir()
	service := serve(t, "--gateway-addr", "off", "--admin-token-file", admin, "--admin-addr", addr, "--data-dir", state)
	at := rulesService(t, service)
	putRule(t, at, "per-user", fmt.Sprintf(perUserRule, 100))
	waitLimit(t, service, "x", 100)
	if out := service.stdout.String(); strings.Contains(out, "hg_") {
		t.Errorf("a token was made although there is one in a file: %s", out)
	}

	args := []string{
		"--gateway-addr", "off", "--control", "http://" + addr, "--token-file", nodeToken(t, at), "--data-dir", t.TempDir(), "--node-id", "n1", "--region", "eu",
	}
	node := serve(t, args...)
	waitLimit(t, node, "x", 100)
	code, status := node.status()
	if f := status.Rules.Follow; code != http.StatusOK || status.Degraded || f == nil || f.FromDisk || f.Namespace != "default" {
		t.Errorf("got %d %+v", code, status)
	}
	revision := putRule(t, at, "per-user", fmt.Sprintf(perUserRule, 200))
	waitLimit(t, node, "x", 200)
	if _, err := at.Put(t.Context(), remote.Clients, "acme", []byte(`{"id":"acme","limits":["300/h"]}`), control.Absent); err != nil {
		t.Fatal(err)
	}
	waitLimit(t, node, "acme", 300)
	override := []byte(`{"id":"o","client":{"user":"acme"},"limits":["400/h"],"for":"1h"}`)
	if _, err := at.Put(t.Context(), remote.Overrides, "o", override, control.Absent); err != nil {
		t.Fatal(err)
	}
	waitLimit(t, node, "acme", 400)
	eventually(t, "the service to know which rules the node has", func() error {
		nodes, err := at.Nodes(t.Context())
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if n.ID == "n1" && n.Region == "eu" && n.Revision > revision && !n.Behind && n.Store == "ok" && n.Address == "http://"+node.admin {
				return nil
			}
		}
		return fmt.Errorf("got %+v", nodes)
	})
	if got := node.metric("headgate_rules_revision"); got <= float64(revision) {
		t.Errorf("headgate_rules_revision: got %v, want more than %d", got, revision)
	}

	if code := service.stop(); code != 0 {
		t.Errorf("the service ended with %d", code)
	}
	if code := node.stop(); code != 0 {
		t.Errorf("the node ended with %d", code)
	}
	node = serve(t, args...)
	for user, want := range map[string]int64{"x": 200, "acme": 400} {
		waitLimit(t, node, user, want)
	}
	code, status = node.status()
	if f := status.Rules.Follow; code != http.StatusOK || !status.Degraded || f == nil || !f.FromDisk || f.Away == "" {
		t.Errorf("without the service: got %d %+v", code, status)
	}
	for series, want := range map[string]float64{"headgate_rules_from_disk": 1, "headgate_rules_service_up": 0} {
		if got := node.metric(series); got != want {
			t.Errorf("without the service: %s: got %v, want %v", series, got, want)
		}
	}

	service = serve(t, "--gateway-addr", "off", "--admin-token-file", admin, "--admin-addr", addr, "--data-dir", state)
	putRule(t, rulesService(t, service), "per-user", fmt.Sprintf(perUserRule, 500))
	waitLimit(t, node, "x", 500)
	if _, status := node.status(); status.Rules.Follow.FromDisk || status.Degraded || node.metric("headgate_rules_from_disk") != 0 {
		t.Errorf("with the service again: got %+v", status)
	}
}

// Who starts without anything gets a token once, and a database that is there again the next time.
func TestTheFirstStartShowsAToken(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	pattern := regexp.MustCompile(`(?m)^  (hg_\S+)$`)
	p := serve(t, onFreePort("--data-dir", state)...)
	var token string
	eventually(t, "a token", func() error {
		found := pattern.FindStringSubmatch(p.stdout.String())
		if found == nil {
			return errors.New("there is none in " + p.stdout.String())
		}
		token = found[1]
		return nil
	})
	for _, line := range p.all() {
		if strings.Contains(line["raw"].(string), token) {
			t.Errorf("the log has the token: %s", line["raw"])
		}
	}
	at := rulesServiceAt(t, remote.Config{URL: "http://" + p.admin, Token: token})
	page, err := at.List(t.Context(), remote.Rules, remote.Query{})
	if err != nil || page.Total != 3 {
		t.Errorf("got %+v, %v, want the rules of the demonstration", page, err)
	}
	if err := at.Delete(t.Context(), remote.Rules, "demo-per-address", control.Any); err != nil {
		t.Error(err)
	}
	p.stop()
	p = serve(t, onFreePort("--data-dir", state)...)
	at = rulesServiceAt(t, remote.Config{URL: "http://" + p.admin, Token: token})
	if page, err = at.List(t.Context(), remote.Rules, remote.Query{}); err != nil || page.Total != 2 {
		t.Errorf("at the second start: got %+v, %v, want two rules", page, err)
	}
	if code := p.stop(); code != 0 || pattern.MatchString(p.stdout.String()) {
		t.Errorf("at the second start: got %d, %s", code, p.stdout)
	}
	_, err = rulesServiceAt(t, remote.Config{URL: "http://" + p.admin, Timeout: time.Second}).List(t.Context(), remote.Rules, remote.Query{})
	if err == nil {
		t.Error("after it was stopped it answers")
	}
}

func TestTheRulesOfAFileAreShownAndNotChanged(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken)
	const text = "rules:\n  - { id: per-user, key: [user], limits: [%d/h] }\n"
	file := newFile(t, "rules.yaml", fmt.Sprintf(text, 100))
	p := serve(t, "--gateway-addr", "off", "--rules", file, "--admin-token-file", admin)
	at := rulesService(t, p)
	shown := func(want string) {
		t.Helper()
		eventually(t, "the API to show "+want, func() error {
			o, err := at.Get(t.Context(), remote.Rules, "per-user")
			if err == nil && !bytes.Contains(o.Body, []byte(want)) {
				err = fmt.Errorf("got %s", o.Body)
			}
			return err
		})
	}
	shown("100/h")
	for of, body := range map[remote.Collection]string{
		remote.Rules:     fmt.Sprintf(perUserRule, 1),
		remote.Clients:   `{"id":"per-user"}`,
		remote.Overrides: `{"id":"per-user","client":{"user":"x"},"unlimited":true,"for":"1h"}`,
	} {
		_, err := at.Put(t.Context(), of, "per-user", []byte(body), control.Any)
		var refused *remote.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusForbidden || !strings.Contains(refused.Detail, "file") {
			t.Errorf("%s: got %v", of, err)
		}
	}
	if err := os.WriteFile(file, []byte(fmt.Sprintf(text, 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	waitLimit(t, p, "x", 200)
	shown("200/h")
	explained := struct{ Rules []struct{ Rule string } }{}
	if err := at.Do(t.Context(), http.MethodPost, "/v1/explain", nil, map[string]any{"attributes": map[string]string{"user": "x"}}, &explained); err != nil {
		t.Error(err)
	}
}

func TestADatabaseThatFollowsAFile(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken)
	const text = "rules:\n  - { id: per-user, key: [user], limits: [%s] }\nclients:\n  - { id: acme, limits: [300/h] }\n"
	file := newFile(t, "rules.yaml", fmt.Sprintf(text, "100/h"))
	db := filepath.Join(t.TempDir(), "below", "rules.db")
	p := serve(t, "--gateway-addr", "off", "--db", db, "--db-follows", file, "--admin-token-file", admin)
	at := rulesService(t, p)
	waitLimit(t, p, "x", 100)
	waitLimit(t, p, "acme", 300)
	_, err := at.Put(t.Context(), remote.Rules, "other", []byte(`{"id":"other","limits":["1/s"]}`), control.Any)
	var refused *remote.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusForbidden || !strings.HasSuffix(refused.Detail, file+": change that.") {
		t.Errorf("got %v", err)
	}
	made, err := at.Apply(t.Context(), remote.Document{Body: []byte(`{"rules":[{"id":"other","limits":["1/s"]}]}`), Media: "application/json"}, false, true, control.Any)
	if err != nil || len(made.Diff) != 1 {
		t.Errorf("a dry run: got %+v, %v; want one difference", made, err)
	}
	if _, err := at.Put(t.Context(), remote.Overrides, "o", []byte(`{"id":"o","client":{"user":"acme"},"limits":["400/h"],"for":"1h"}`), control.Any); err != nil {
		t.Error(err)
	}
	waitLimit(t, p, "acme", 400)

	write := func(limit string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(fmt.Sprintf(text, limit)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("200/h")
	waitLimit(t, p, "x", 200)
	write("lots")
	eventually(t, "the error to be said", func() error {
		if _, s := p.status(); !strings.Contains(s.Rules.Error, "rules.yaml:2:") || !s.Degraded || s.State != telemetry.Ready {
			return fmt.Errorf("got %+v", s)
		}
		return nil
	})
	waitLimit(t, p, "x", 200)
	write("250/h")
	waitLimit(t, p, "x", 250)
	if _, s := p.status(); s.Rules.Error != "" {
		t.Errorf("got %+v", s.Rules)
	}
	waitLimit(t, p, "acme", 400)
}

// The rules service over TLS, and a node that believes its certificate alone and takes webhooks.
func TestARulesServiceWithTLS(t *testing.T) {
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
	at := rulesServiceAt(t, remote.Config{URL: "https://" + service.admin, Token: testAdminToken, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, Timeout: patience})
	putRule(t, at, "per-user", fmt.Sprintf(perUserRule, 100))
	config = write("node.yaml", "rules_service: { ca_file: tls.crt, hook_secret_file: hook.txt }\n")
	node := serve(t, "--gateway-addr", "off", "--config", config, "--control", "https://"+service.admin, "--token-file", nodeToken(t, at))
	waitLimit(t, node, "x", 100)

	hook := func(key string, now time.Time) int {
		t.Helper()
		body := []byte(`{"event":"revision","namespace":"default","revision":1,"delivery":"d1"}`)
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+node.admin+"/v1/hooks/rules", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(api.SignatureHeader, api.Sign([]byte(strings.ReplaceAll(key, " ", "-")), body, now))
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	now := time.Now()
	asked := func() float64 {
		var sum float64
		for _, result := range []string{"unchanged", "delta", "whole"} {
			sum += node.metric(`headgate_rules_fetches_total{result="` + result + `"}`)
		}
		return sum
	}
	before := asked()
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
	eventually(t, "the node to ask", func() error {
		if got := asked(); got <= before {
			return fmt.Errorf("it has asked %v times", got)
		}
		return nil
	})
}

// Those who watch do not keep a service from ending.
func TestAServiceThatIsWatchedEnds(t *testing.T) {
	t.Parallel()
	admin := newFile(t, "admin-token", testAdminToken)
	p := serve(t, "--gateway-addr", "off", "--admin-token-file", admin)
	at := rulesService(t, p)
	watching, ended := make(chan struct{}, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(ended)
		for _, err := range at.Watch(ctx) {
			if err != nil {
				return
			}
			select {
			case watching <- struct{}{}:
			default:
			}
		}
	}()
	<-watching
	if code := p.stop(); code != 0 || len(p.logged("stopped")) != 1 {
		t.Errorf("it ended with %d", code)
	}
	<-ended
}

// A database on another host that is away at the start: the node decides by the rules on disk until it is there.
func TestADatabaseThatIsAwayAtTheStart(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t, redistest.Options{})
	admin, state := newFile(t, "admin-token", testAdminToken), t.TempDir()
	args := func(addr string) []string {
		return []string{"--gateway-addr", "off", "--db", "redis://" + addr, "--data-dir", state, "--admin-token-file", admin}
	}
	p := serve(t, args(redis.Addr())...)
	putRule(t, rulesService(t, p), "per-user", fmt.Sprintf(perUserRule, 100))
	waitLimit(t, p, "x", 100)
	if code := p.stop(); code != 0 {
		t.Errorf("it ended with %d", code)
	}

	addr := freeAddr(t)
	p = serve(t, args(addr)...)
	waitLimit(t, p, "x", 100)
	code, status := p.status()
	if f := status.Rules.Follow; code != http.StatusOK || !status.Degraded || !f.FromDisk || f.Away == "" {
		t.Errorf("without the database: got %d %+v", code, status)
	}
	if code, body := get(t, "http://"+p.admin+"/v1/rules"); code != http.StatusServiceUnavailable {
		t.Errorf("the API without the database: got %d %s", code, body)
	}
	forward(t, addr, redis.Addr())
	eventually(t, "the database to be there", func() error {
		if _, status := p.status(); status.Rules.Follow.FromDisk || status.Degraded {
			return fmt.Errorf("got %+v", status.Rules.Follow)
		}
		return nil
	})
	putRule(t, rulesService(t, p), "per-user", fmt.Sprintf(perUserRule, 200))
	waitLimit(t, p, "x", 200)
	if code := p.stop(); code != 0 {
		t.Errorf("it ended with %d", code)
	}

	// With neither it does not start: nobody would be limited.
	out, err := exec.Command("headgate", "serve", "--gateway-addr", "off", "--admin-addr", "off", "--api-addr", "127.0.0.1:0", "--grpc-addr", "off",
		"--resp-addr", "off", "--db", "redis://"+freeAddr(t), "--data-dir", t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "headgate: --db: ") {
		t.Errorf("got %v, %s", err, out)
	}
}

// forward has what connects to one address reach another, until the test ends.
func forward(t *testing.T, from, to string) {
	t.Helper()
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		group.Wait()
	})
	group.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				group.Go(func() {
					_, _ = io.Copy(pair[0], pair[1]) // until one of them ends it
					_, _ = in.Close(), out.Close()
				})
			}
		}
	})
}
