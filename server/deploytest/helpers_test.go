package deploytest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file/enginetest"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/service/httpapi"
)

// patience is how long tests wait for what should happen soon, on a busy machine too.
const patience = time.Minute

const rules = `
rules:
  - { id: per-ip, when: { path: /limited/** }, key: [ip], limits: [2/h] }
  - { id: per-key, when: { path: /keys, method: POST, header.x-plan: gold }, key: [api_key], limits: [1/h] }
  - { id: admin, when: { path: /admin/** }, block: true }
  - { id: line, when: { path: /line }, key: [ip], limits: [1/s], on_limit: delay 5s }
  - { id: busy, when: { path: /busy }, key: [ip], limits: [1/h], status: 503 }
  - { id: host, when: { host: limited.example.com }, key: [ip], limits: [1/h] }
`

// A site is a Headgate, a service, and where both listen.
type site struct {
	headgate *service.HTTPServer
	decider  string // its address
	service  string
	mu       sync.Mutex
	served   []*http.Request
}

// newSite starts both. The service answers with what it got.
func newSite(t *testing.T) *site {
	t.Helper()
	decide, _ := enginetest.New(t, rules, memstore.Options{})
	proxies, err := identity.ParseNetworks("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.New(identity.Config{TrustedProxies: proxies})
	if err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(httpapi.Config{Engine: decide, Identifier: id, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{}
	if s.headgate, err = service.NewHTTP(service.HTTPConfig{Handler: api, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.decider = l.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.headgate.Serve(l) }()
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.served = append(s.served, r)
		s.mu.Unlock()
		if r.URL.Path == "/broken" {
			panic(http.ErrAbortHandler) // ends the connection
		}
		if r.URL.Path == "/forbidden" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write(append([]byte("served "+r.Method+" "+r.URL.RequestURI()+" "), body...))
	}))
	s.service = behind.Listener.Addr().String()
	t.Cleanup(func() {
		s.goAway()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		behind.Close()
	})
	return s
}

// goAway ends the Headgate.
func (s *site) goAway() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.headgate.Shutdown(ctx) // it says that it was in a hurry
}

// seen returns the last request that the service got.
func (s *site) seen() *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served[len(s.served)-1]
}

// count returns how many requests for a path the service got.
func (s *site) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.served {
		if r.URL.Path == path {
			n++
		}
	}
	return n
}

// freePort returns an address where nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// place writes a file of this folder into another, with other addresses than those in it, and more time on a busy
// machine.
func place(t *testing.T, dir, name string, instead ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for i := 0; i+1 < len(instead); i += 2 {
		if !strings.Contains(text, instead[i]) {
			t.Fatalf("%s has no %q", name, instead[i])
		}
		text = strings.ReplaceAll(text, instead[i], instead[i+1])
	}
	path := filepath.Join(dir, filepath.Base(name))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a program until the test ends, and waits until it listens.
func run(t *testing.T, dir, addr, program string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path = "/usr/sbin/" + program
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("this test needs %s: make test installs it", program)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, path, args...)
	var output bytes.Buffer
	command.Dir, command.Stdout, command.Stderr, command.WaitDelay = dir, &output, &output, patience
	command.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	if err := command.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // it is killed
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if t.Failed() {
			t.Logf("%s says:\n%s", program, &output)
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("%s has ended", program)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen: %v", program, err)
		}
	}
}

// An answer is what a client got.
type answer struct {
	*http.Response
	body string
}

// ask sends a request through a proxy, from an address of its own, with headers, name and value by turns.
func ask(t *testing.T, from, method, url, body string, header ...string) answer {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: patience}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(text)}
}

// askRaw sends a request as it is given, and returns the status, or 0 if there was no response.
func askRaw(t *testing.T, url, request string) int {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode
}

// A proxy is one that is tested: what it can do, and what it cannot.
type proxy struct {
	url   string
	tells bool // who passes is told of limits as well
	opens bool // requests pass if Headgate is away
}

// test sends requests through a proxy, and then takes Headgate away.
func (p proxy) test(t *testing.T, s *site) {
	t.Helper()
	get := func(from, path string, header ...string) answer {
		t.Helper()
		return ask(t, from, http.MethodGet, p.url+path, "", header...)
	}
	wants := func(what string, a answer, status int) {
		t.Helper()
		if a.StatusCode != status {
			t.Errorf("%s: got %d %s, want %d", what, a.StatusCode, a.body, status)
		}
	}

	first := get("127.0.0.2", "/limited/a?q=1")
	wants("the first", first, 200)
	if first.body != "served GET /limited/a?q=1 " {
		t.Errorf("got %q, want the service's answer", first.body)
	}
	if got := first.Header.Get("RateLimit"); p.tells && !strings.HasPrefix(got, `"per-ip";r=1`) {
		t.Errorf("got RateLimit %q, want what is left", got)
	}
	wants("by another spelling", get("127.0.0.2", "/limited/%61"), 200)
	denied := get("127.0.0.2", "/limited/b")
	wants("the third", denied, 429)
	if got := denied.Header.Get("Retry-After"); len(got) != 4 {
		t.Errorf("got Retry-After %q, want some 1800 seconds", got)
	}
	if got := denied.Header.Get("RateLimit"); !strings.HasPrefix(got, `"per-ip";r=0`) {
		t.Errorf("got RateLimit %q, want that nothing is left", got)
	}
	var problem struct {
		Type   string
		Status int
	}
	if err := json.Unmarshal([]byte(denied.body), &problem); err != nil || problem.Status != 429 || !strings.HasSuffix(problem.Type, "#quota-exceeded") {
		t.Errorf("got %s, want a problem", denied.body)
	}
	if got := denied.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("got Content-Type %q", got)
	}
	wants("a client that claims another address", get("127.0.0.2", "/limited/b", "X-Forwarded-For", "192.0.2.1"), 429)
	if got := askRaw(t, p.url, "GET /limited/b HTTP/1.1\r\nHost: example.com\r\nX-Bad: a\x01b\r\n\r\n"); got >= 200 && got < 300 {
		t.Errorf("a header that nobody should take: got %d, want that it is refused", got)
	}
	wants("who is limited, after somebody's bad header", get("127.0.0.2", "/limited/b"), 429)
	wants("another", get("127.0.0.3", "/limited/b"), 200)
	for i, want := range []int{200, 200, 429} { // 127.0.0.1
		if got := askRaw(t, p.url, "GET /limited/b HTTP/1.0\r\n\r\n"); got != want {
			t.Errorf("HTTP/1.0 without a host, request %d: got %d, want %d", i+1, got, want)
		}
	}
	wants("a path without a limit", get("127.0.0.2", "/"), 200)

	// The method, the headers and the body are the client's.
	post := func() answer {
		t.Helper()
		return ask(t, "127.0.0.2", http.MethodPost, p.url+"/keys", "the body", "X-Plan", "gold", "X-API-Key", "k")
	}
	if got := post(); got.body != "served POST /keys the body" {
		t.Errorf("got %d %q, want the service to get the body", got.StatusCode, got.body)
	}
	wants("the key's second", post(), 429)
	wants("with another method", get("127.0.0.2", "/keys", "X-Plan", "gold", "X-API-Key", "k"), 200)
	wants("a host with a limit", get("127.0.0.2", "/", "Host", "limited.example.com"), 200)
	wants("the same again", get("127.0.0.2", "/", "Host", "limited.example.com"), 429)

	wants("who is blocked", get("127.0.0.2", "/admin/x"), 403)
	wants("once", get("127.0.0.2", "/busy"), 200)
	wants("twice", get("127.0.0.2", "/busy"), 503)
	wants("a path that may be read in two ways", get("127.0.0.2", "/a%2fb"), 400)
	forbidden := get("127.0.0.2", "/forbidden")
	wants("what the service forbids", forbidden, 403)
	if !strings.HasPrefix(forbidden.body, "served") {
		t.Errorf("got %q, want the service's own answer", forbidden.body)
	}

	// A service that fails gets the request once.
	if got := ask(t, "127.0.0.2", http.MethodPost, p.url+"/broken", "the body"); got.StatusCode < 500 {
		t.Errorf("a service that hangs up: got %d, want an error", got.StatusCode)
	}
	if got := s.count("/broken"); got != 1 {
		t.Errorf("a service that hangs up got the request %d times, want once", got)
	}

	// Who says what only a proxy may say gets nothing by it.
	for _, name := range []string{"X-Forwarded-Uri", "X-Original-URI", "X-Original-URL"} {
		if got := get("127.0.0.4", "/admin/x", name, "/free"); got.StatusCode != 403 && got.StatusCode != 400 {
			t.Errorf("with %s: got %d, want that it is blocked or refused", name, got.StatusCode)
		}
	}
	for _, name := range []string{"X-Forwarded-Method", "X-Original-Method"} {
		got := ask(t, "127.0.0.4", http.MethodPost, p.url+"/keys", "", "X-Plan", "gold", "X-API-Key", "k", name, "GET")
		if got.StatusCode != 429 && got.StatusCode != 400 {
			t.Errorf("with %s: got %d, want that it is limited or refused", name, got.StatusCode)
		}
	}

	// A delay is held.
	begun := time.Now()
	for range 3 {
		wants("who waits in line", get("127.0.0.2", "/line"), 200)
	}
	if took := time.Since(begun); took < 1900*time.Millisecond {
		t.Errorf("three that are a second apart took %s", took)
	}
	if got := s.seen().Header.Get("RateLimit"); got != "" {
		t.Errorf("the service got RateLimit %q, want none", got)
	}

	s.goAway()
	if away := get("127.0.0.2", "/limited/c"); p.opens && away.StatusCode != 200 || !p.opens && away.StatusCode < 500 {
		t.Errorf("without Headgate: got %d %s", away.StatusCode, away.body)
	}
	if p.opens {
		if got := post(); got.body != "served POST /keys the body" {
			t.Errorf("without Headgate: got %d %q, want the service to get the body", got.StatusCode, got.body)
		}
	}
}
