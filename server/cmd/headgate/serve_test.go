package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/telemetry"
)

func TestServeWithoutOptionsRunsTheDemo(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("this test needs curl; on Debian: apt-get install curl")
	}
	p := serve(t, onFreePort()...)
	var line string
	await.NoError(t, "a line to try", func() error {
		if line = regexp.MustCompile(`(?m)^  (curl -i \S+)$`).FindString(p.stdout.String()); line == "" {
			return fmt.Errorf("got %s", p.stdout)
		}
		return nil
	})
	// The line as it is, and then its URL so often that more are denied than come back, however long that takes.
	began := time.Now()
	var answers []string
	for _, times := range []int{1, 50} {
		out, err := exec.Command("sh", "-c", line+" -s"+strings.Repeat(" "+line[strings.LastIndexByte(line, ' ')+1:], times-1)).Output()
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		answers = append(answers, strings.Split(string(out), "HTTP/1.1 ")[1:]...)
	}
	var codes []string
	var last string // of those that were denied
	for _, response := range answers {
		codes = append(codes, response[:3])
		if strings.HasPrefix(response, "429") {
			last = "HTTP/1.1 " + response
		}
	}
	passed := strings.Index(strings.Join(codes, " "), "429") / len("200 ")
	if limit := 11 + int(2*time.Since(began).Seconds()); last == "" || passed < 10 || passed > limit {
		t.Errorf("got %s, want ten times 200, then 429", codes)
	}
	for _, header := range []string{
		`HTTP/1.1 429 Too Many Requests`, `Retry-After: 1`, `Content-Type: application/problem\+json`, `Cache-Control: no-store`,
		`RateLimit: "demo-per-address";r=0;t=1`, `RateLimit-Policy: "demo-per-address";q=2;w=1`,
		`X-RateLimit-Limit: 10`, `X-RateLimit-Remaining: 0`, `X-RateLimit-Reset: \d+`, `"violated-policies":\["demo-per-address"\]`,
	} {
		if !regexp.MustCompile(`(?i)` + header).MatchString(last) {
			t.Errorf("got no %s in\n%s", header, last)
		}
	}
	// Others are not affected: another address, and clients with keys.
	newClient(t, p.gateway).from("127.0.0.2").want(5, 200)
	newClient(t, p.gateway, "X-API-Key", "alice").want(5, 200)
	newClient(t, p.gateway, "X-API-Key", "bob").want(5, 200)
	if code := p.stop(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

func TestFirstLogLineHasTheAddresses(t *testing.T) {
	t.Parallel()
	p := serve(t, onFreePort()...)
	for name, addr := range map[string]string{"gateway": p.gateway, "admin": p.admin, "api": p.api, "grpc": p.grpc, "resp": p.resp} {
		host, port, err := net.SplitHostPort(addr)
		if n, _ := strconv.Atoi(port); err != nil || host != "127.0.0.1" || n == 0 {
			t.Errorf("%s: got %q, want an address with a port", name, addr)
		}
	}
	await.NoError(t, "it to be ready", func() error { // which it is when the gateway serves, a moment later
		code, s := p.status()
		if code != 200 || s.State != telemetry.Ready || s.Degraded || s.Listeners["gateway"] != p.gateway || s.Rules.Count != 5 {
			return fmt.Errorf("got %d %+v", code, s)
		}
		return nil
	})
	if code, _ := get(t, "http://"+p.admin+"/healthz"); code != 200 {
		t.Errorf("healthz: got %d", code)
	}
	newClient(t, p.gateway).want(1, 200)
}

func TestListenersCanBeOff(t *testing.T) {
	t.Parallel()
	p := serve(t, "--gateway-addr", "off", "--api-addr", "off", "--grpc-addr", "off", "--resp-addr", "off")
	if got := p.api + p.grpc + p.resp; got != "" {
		t.Errorf("got the decision service at %q, want it off", got)
	}
	if p.gateway != "" || p.admin == "" {
		t.Errorf("got %q and %q, want the admin's alone", p.gateway, p.admin)
	}
	if code := p.stop(); code != 0 {
		t.Errorf("got exit code %d", code)
	}
	q := serve(t, onFreePort("--admin-addr", "off")...)
	if q.admin != "" || q.gateway == "" {
		t.Errorf("got %q and %q, want the gateway's alone", q.gateway, q.admin)
	}
	newClient(t, q.gateway).want(1, 200)
}

func TestServeWithAnUpstream(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Saw", r.Header.Get("X-Forwarded-For")+" "+r.URL.Path)
	}))
	defer upstream.Close()
	rules := rulesFile(t, "rules:\n  - { id: per-user, key: [user], limits: [3/h] }\n")
	p := serve(t, onFreePort("--upstream", upstream.URL, "--rules", rules)...)
	if got := newClient(t, p.gateway).must("/a/b").Header.Get("X-Saw"); got != "127.0.0.1 /a/b" {
		t.Errorf("got %q", got)
	}
	if got := p.stdout.String(); got != "" {
		t.Errorf("got %q, want nothing for people where there is a service", got)
	}
}

// Behind a proxy that is trusted, clients are who it says they are; others cannot choose who they are.
func TestTrustedProxiesNameClients(t *testing.T) {
	t.Parallel()
	rules := rulesFile(t, "rules:\n  - { id: per-ip, key: [ip], limits: [2/h] }\n")
	p := serve(t, onFreePort("--rules", rules, "--trusted-proxies", "127.0.0.1")...)
	newClient(t, p.gateway, "X-Forwarded-For", "203.0.113.1").want(2, 200)
	newClient(t, p.gateway, "X-Forwarded-For", "203.0.113.1").want(1, 429)
	newClient(t, p.gateway, "X-Forwarded-For", "203.0.113.2").want(2, 200)
	newClient(t, p.gateway, "X-Forwarded-For", "203.0.113.3").from("127.0.0.9").want(2, 200)
	newClient(t, p.gateway, "X-Forwarded-For", "203.0.113.4").from("127.0.0.9").want(1, 429)
}

func TestConfigurationWithTwoListenersAndRoutes(t *testing.T) {
	t.Parallel()
	named := func(name string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Server", name) }))
		t.Cleanup(s.Close)
		return s
	}
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	writeFile(t, path, fmt.Sprintf(`
rules: rules.yaml
admin_addr: off
responses: { x_ratelimit: false }
identity: { api_key_header: X-Key }
gateway:
  listeners: [{ addr: "127.0.0.1:0" }, { addr: "127.0.0.1:0" }]
  routes:
    - { path: /a, upstreams: [%q] }
    - { path: /, upstreams: [%q, %q] }
`, named("a").URL, named("b").URL, named("c").URL))
	writeFile(t, filepath.Join(filepath.Dir(path), "rules.yaml"), "rules:\n  - { id: per-key, key: [api_key], limits: [100/h] }\n")
	p := serve(t, "--config", path)
	if p.admin == "" {
		t.Error("the flag does not count before the file")
	}
	second, _ := p.logged("listening")[0]["gateway2"].(string)
	for _, addr := range []string{p.gateway, second} {
		c := newClient(t, addr, "X-Key", "k1")
		if got := c.must("/a/x").Header.Get("X-Server"); got != "a" {
			t.Errorf("/a/x: got server %q", got)
		}
		seen := map[string]bool{}
		for range 4 {
			r := c.must("/b")
			seen[r.Header.Get("X-Server")] = true
			if r.Header.Get("X-RateLimit-Limit") != "" || !strings.Contains(r.Header.Get("RateLimit"), `"per-key"`) {
				t.Errorf("got headers %v", r.Header)
			}
		}
		if !seen["b"] || !seen["c"] {
			t.Errorf("got %v, want both to take turns", seen)
		}
	}
	if got := newClient(t, second, "X-Key", "k1").must("/").Header.Get("RateLimit"); !strings.Contains(got, "r=89") {
		t.Errorf("got %s, want one count for both listeners", got)
	}
	if p.metric(`headgate_upstream_up{route="/a",upstream="`+p.upstream("/a")+`"}`) != 1 {
		t.Error("no figures of the upstream")
	}
}

// upstream returns the URL of the first upstream of a route.
func (p *process) upstream(route string) string {
	_, s := p.status()
	for _, u := range s.Upstreams {
		if u.Route == route {
			return u.URL
		}
	}
	return ""
}

func TestSIGTERMWaitsForRequests(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		_, _ = w.Write([]byte("finished"))
	}))
	defer upstream.Close()
	p := serve(t, onFreePort("--upstream", upstream.URL, "--rules", rulesFile(t, "rules: []\n"))...)
	type outcome struct {
		code int
		err  error
	}
	outcomes := make(chan outcome, 10)
	for range 10 {
		c := newClient(t, p.gateway)
		go func() {
			r, err := c.ask("/")
			if err != nil {
				outcomes <- outcome{err: err}
				return
			}
			outcomes <- outcome{code: r.StatusCode}
		}()
	}
	for range 10 {
		<-arrived
	}
	p.signal(syscall.SIGTERM)
	await.NoError(t, "draining", func() error {
		if code, s := p.status(); code != 503 || s.State != telemetry.Draining {
			return fmt.Errorf("got %d %s", code, s.State)
		}
		return nil
	})
	await.NoError(t, "the listener to close", func() error {
		conn, err := net.DialTimeout("tcp", p.gateway, time.Second)
		if err == nil {
			_ = conn.Close()
			return fmt.Errorf("it still accepts")
		}
		return nil
	})
	close(release)
	for range 10 {
		if o := <-outcomes; o.err != nil || o.code != 200 {
			t.Errorf("got %d, %v, want 200", o.code, o.err)
		}
	}
	if code := p.wait(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

func TestAccessLogIsJSON(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	writeFile(t, path, "gateway: { access_log: { every: 1 } }\n")
	p := serve(t, onFreePort("--config", path)...)
	newClient(t, p.gateway, "Authorization", "Bearer hush").must("/seen?token=hush")
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	found := false
	for _, line := range p.log {
		raw := fmt.Sprint(line["raw"])
		if !json.Valid([]byte(raw)) {
			t.Errorf("got %s, want JSON", raw)
		}
		if strings.Contains(raw, "hush") {
			t.Errorf("got %s, want no secrets", raw)
		}
		found = found || strings.Contains(raw, "/seen")
	}
	if !found {
		t.Error("the request is not in the log")
	}
}

func TestErrorNamesAnAddressInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	addr := l.Addr().String()
	for _, args := range [][]string{
		{"--gateway-addr", addr, "--admin-addr", "off"},
		{"--gateway-addr", "127.0.0.1:0", "--admin-addr", addr},
	} {
		args = append([]string{"serve", "--data-dir", t.TempDir()}, args...)
		out, err := exec.Command("headgate", args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), addr) || !strings.Contains(string(out), "address already in use") {
			t.Errorf("%q: got %v, %s", args, err, out)
		}
	}
}
