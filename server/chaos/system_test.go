package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/internal/pgtest"
)

const (
	adminToken = "the-admin-token-of-the-chaos-run"
	keySecret  = "the-key-secret-of-the-chaos-run"
	nodes      = 3

	// The limits of the two rules under load.
	closedRate, closedBurst = 50, 50
	openRule                = `{"id":"open","when":{"path":"/open"},"limits":["100/s burst 100"],"on_failure":"open"}`
	closedRule              = `{"id":"closed","when":{"path":"/closed"},"limits":["50/s burst 50"],"on_failure":"closed"}`
)

// A program is a headgate process that can be started again on the same addresses.
type program struct {
	t      *testing.T
	binary string
	name   string
	args   []string
	log    *os.File

	gateway, admin string

	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan struct{}
	broken atomic.Int64 // faults on it that the balancer has noticed
	flawed atomic.Int64 // faults on it during which it may refuse connections
	disk   string       // its own file system, or empty
	clock  string       // the file with how far its clock is moved
}

func (p *program) start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = exec.Command(p.binary, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.Env = append(os.Environ(), clockFileVariable+"="+p.clock)
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.ended = make(chan struct{})
	go func(c *exec.Cmd, ended chan struct{}) {
		_ = c.Wait() // it is killed
		close(ended)
	}(p.cmd, p.ended)
}

func (p *program) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// endedChannel returns a channel that is closed when the process has ended.
func (p *program) endedChannel() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// down reports whether a balancer knows that the node does not work.
func (p *program) down() bool {
	select {
	case <-p.endedChannel():
		return true
	default:
		return p.broken.Load() > 0
	}
}

// faulty reports whether the node is under a fault.
func (p *program) faulty() bool { return p.flawed.Load() > 0 || p.down() }

func (p *program) signal(s os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Signal(s)
}

// A system is everything that runs: PostgreSQL, a rules service, a Redis Cluster, three nodes and their upstream.
type system struct {
	t        *testing.T
	redis    *redistest.ClusterSet
	networks []*redistest.Proxy // in front of each server of redis
	postgres *pgtest.Server
	rules    *program
	link     *redistest.Proxy // between the nodes and the rules service
	nodes    []*program
	client   *http.Client
}

// buildProgram builds headgate from the sources in a directory, the root of a repository.
func buildProgram(t *testing.T, root string, flags ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "headgate")
	args := slices.Concat([]string{"build", "-buildvcs=false", "-o", binary}, flags, []string{"./server/cmd/headgate"})
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

func startSystem(t *testing.T, binary string) *system {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	s := &system{
		t: t, postgres: pgtest.Start(t, pgtest.Options{Durable: true}), client: &http.Client{Timeout: 2 * time.Second},
	}
	s.startRedis()
	dir := t.TempDir()
	token, secret := filepath.Join(dir, "token"), filepath.Join(dir, "secret")
	for path, text := range map[string]string{token: adminToken, secret: keySecret} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.rules = s.program(
		binary, "rules", "--gateway-addr", "off", "--db", s.postgres.NewSchema(t), "--admin-token-file", token,
	)
	s.link = redistest.NewProxy(t, s.rules.admin)
	s.await("the rules service", func() error { return s.put("open", openRule) })
	s.await("the second rule", func() error { return s.put("closed", closedRule) })
	for i := range nodes {
		s.nodes = append(s.nodes, s.program(binary, fmt.Sprintf("node-%d", i+1), "--upstream", upstream.URL,
			"--store", s.redisURL(), "--key-secret-file", secret, "--control", "http://"+s.link.Addr(), "--token-file", token))
	}
	s.await("a healthy system", s.healthy)
	return s
}

// program starts a process on free addresses, which it keeps when it is started again.
func (s *system) program(binary, name string, args ...string) *program {
	s.t.Helper()
	dir, disk := s.t.TempDir(), ""
	if mountDisk(s.t, dir) {
		disk = dir
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	p := &program{
		t: s.t, binary: binary, name: name, log: log, disk: disk, clock: filepath.Join(s.t.TempDir(), "clock"),
		gateway: freeAddr(s.t), admin: freeAddr(s.t),
	}
	p.args = append([]string{
		"serve", "--gateway-addr", p.gateway, "--admin-addr", p.admin, "--api-addr", "off", "--grpc-addr", "off",
		"--resp-addr", "off", "--data-dir", dir, "--node-id", name, "--log-format", "json",
	}, args...)
	p.start()
	s.t.Cleanup(func() {
		p.kill()
		if s.t.Failed() {
			if text, err := os.ReadFile(log.Name()); err == nil {
				s.t.Logf("%s:\n%s", name, text[max(0, len(text)-4000):])
			}
		}
		_ = log.Close() // the test is over
	})
	return p
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.3:0") // other tests listen on 127.0.0.1
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // only the number is needed
	return l.Addr().String()
}

func (s *system) await(what string, try func() error) {
	s.t.Helper()
	await.NoError(s.t, what, try)
}

// call sends a request to the rules service, and decodes its response into v unless v is nil.
func (s *system) call(method, path, body string, v any) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.rules.admin+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+adminToken)
	r.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, data)
	}
	if err != nil || v == nil {
		return err
	}
	return json.Unmarshal(data, v)
}

func (s *system) put(id, rule string) error {
	return s.call(http.MethodPut, "/v1/rules/"+id, rule, nil)
}

// healthy returns nil if the rules service can be written, and every node is ready, not degraded, and decides with
// Redis.
func (s *system) healthy() error {
	if err := s.put("probe", `{"id":"probe","when":{"path":"/probe"},"limits":["1/s"]}`); err != nil {
		return err
	}
	for _, n := range s.nodes {
		var status struct {
			State    string
			Degraded bool
		}
		if err := s.get("http://"+n.admin+"/readyz", &status); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		if status.State != "ready" || status.Degraded {
			return fmt.Errorf("%s is %+v", n.name, status)
		}
		if r, err := s.ask(n, "/closed"); err != nil {
			return fmt.Errorf("%s does not respond to /closed: %w", n.name, err)
		} else if r.status != 200 && r.status != 429 {
			return fmt.Errorf("%s responds %d to /closed", n.name, r.status)
		}
	}
	return nil
}

func (s *system) get(url string, v any) error {
	response, err := s.client.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	return json.NewDecoder(response.Body).Decode(v)
}

// A reply is the response to a request.
type reply struct {
	status     int
	retryAfter string
	body       string // of a server error
}

// isOverload reports whether a node refused the request because of overload.
func (r reply) isOverload() bool {
	return r.status == 503 && r.retryAfter != "" &&
		(strings.Contains(r.body, "Too many requests arrived at once.") || strings.Contains(r.body, "All connections are in use."))
}

// ask sends a request through a node. The error is that of the connection.
func (s *system) ask(n *program, path string) (reply, error) {
	response, err := s.client.Get("http://" + n.gateway + path)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	r := reply{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After")}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if r.status >= 500 {
		r.body = string(body)
	}
	return r, err
}
