package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/server/telemetry"
)

// patience is how long tests wait for what should happen soon, on a busy machine too.
const patience = time.Minute

// A process is a headgate serve that runs.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	gateway string // its address
	admin   string
	api     string
	grpc    string
	resp    string
	stdout  *logbook.Book
	ended   chan struct{}

	mu  sync.Mutex
	log []map[string]any
}

// serve starts headgate serve on free ports and waits until it listens.
func serve(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, stdout: &logbook.Book{}, ended: make(chan struct{})}
	command := []string{"serve"}
	for _, name := range []string{"admin", "api", "grpc", "resp"} {
		command = append(command, "--"+name+"-addr", "127.0.0.1:0")
	}
	p.cmd = exec.Command("headgate", append(command, args...)...)
	p.cmd.Stdout = p.stdout
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "HEADGATE_") { // the environment of the tests may have some
			p.cmd.Env = append(p.cmd.Env, pair)
		}
	}
	p.cmd.Env = append(p.cmd.Env, "HEADGATE_DEMO_TRAFFIC=off")   // a flag turns it on
	p.cmd.Env = append(p.cmd.Env, "XDG_STATE_HOME="+t.TempDir()) // so that each has a database of its own
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			line := map[string]any{"raw": lines.Text()}
			_ = json.Unmarshal(lines.Bytes(), &line) // what is no JSON stays raw
			p.mu.Lock()
			p.log = append(p.log, line)
			p.mu.Unlock()
		}
	}()
	go func() {
		<-read
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		select {
		case <-p.ended:
		default:
			_ = p.cmd.Process.Kill() // it may have ended now
			<-p.ended
		}
		if t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, line := range p.log {
				t.Log(line["raw"])
			}
		}
	})
	line := p.waitLog("listening")
	p.gateway, _ = line["gateway"].(string)
	p.admin, _ = line["admin"].(string)
	p.api, _ = line["api"].(string)
	p.grpc, _ = line["grpc"].(string)
	p.resp, _ = line["resp"].(string)
	return p
}

// onFreePort are the arguments for a gateway on a port of its own.
func onFreePort(args ...string) []string {
	return append([]string{"--gateway-addr", "127.0.0.1:0"}, args...)
}

// all returns all lines of the log.
func (p *process) all() []map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]map[string]any(nil), p.log...)
}

// logged returns the lines of the log with that message.
func (p *process) logged(msg string) []map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []map[string]any
	for _, line := range p.log {
		if line["msg"] == msg {
			found = append(found, line)
		}
	}
	return found
}

// waitLog waits for a message in the log.
func (p *process) waitLog(msg string) map[string]any {
	p.t.Helper()
	var line map[string]any
	await.NoError(p.t, "the log to say "+strconv.Quote(msg), func() error {
		if found := p.logged(msg); len(found) > 0 {
			line = found[len(found)-1]
			return nil
		}
		select {
		case <-p.ended:
			p.t.Fatalf("it ended: %v", p.cmd.ProcessState)
		default:
		}
		return errors.New("it does not")
	})
	return line
}

// signal sends a signal.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// stop ends the process with SIGTERM and returns its exit code.
func (p *process) stop() int {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	return p.wait()
}

func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatal("it does not end")
		return -1
	}
}

// status asks /readyz.
func (p *process) status() (int, telemetry.Status) {
	p.t.Helper()
	var s telemetry.Status
	code, body := get(p.t, "http://"+p.admin+"/readyz")
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		p.t.Fatalf("%v: %s", err, body)
	}
	return code, s
}

// metric returns the value of a series, 0 if there is none.
func (p *process) metric(series string) float64 {
	p.t.Helper()
	_, body := get(p.t, "http://"+p.admin+"/metrics")
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// A client sends requests to a gateway, on connections of its own.
type client struct {
	t    testing.TB
	url  string
	http http.Client
	set  map[string]string // headers
}

// newClient returns a client with these headers, name and value by turns.
func newClient(t testing.TB, addr string, headers ...string) *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	c := &client{t: t, url: "http://" + addr, http: http.Client{Transport: transport, Timeout: patience}, set: map[string]string{}}
	for i := 0; i < len(headers); i += 2 {
		c.set[headers[i]] = headers[i+1]
	}
	return c
}

// from makes the client connect from another address of the loopback network, of which Linux has many.
func (c *client) from(addr string) *client {
	if runtime.GOOS != "linux" {
		c.t.Skip("only Linux has more than one address for this")
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	c.http.Transport.(*http.Transport).DialContext = dialer.DialContext
	return c
}

// ask sends a request and returns its answer, whose body was read.
func (c *client) ask(path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, c.url+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	for name, value := range c.set {
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return response, nil
}

// must sends a request and returns its answer, which must have come.
func (c *client) must(path string) *http.Response {
	c.t.Helper()
	response, err := c.ask(path)
	if err != nil {
		c.t.Fatal(err)
	}
	return response
}

// want sends requests that must be answered so.
func (c *client) want(times, status int) {
	c.t.Helper()
	for i := range times {
		if got := c.must("/").StatusCode; got != status {
			c.t.Fatalf("the %d. of %d: got %d, want %d", i+1, times, got, status)
		}
	}
}

// writeFile writes a file of a test, in one step as careful people do.
func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

// rulesFile writes rules and returns where.
func rulesFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, text)
	return path
}
