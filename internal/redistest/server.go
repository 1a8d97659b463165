package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/process"
)

// A Server is one Redis server, or a sentinel. It keeps its port during the test.
type Server struct {
	t       testing.TB
	name    string // its name in logs and errors
	program string
	args    []string
	o       Options
	role    []string // lines of redis.conf for its role, such as replica
	certs   *Certificates
	admin   bool          // the server has the user adminName
	ready   func(*Server) // called after every start; may be nil
	dir     string
	ports   *reservedPorts // nil before the first start
	port    int

	mu      sync.Mutex
	process *process.Process // nil before the first start
	paused  bool
}

// Standalone starts a single server.
func Standalone(t testing.TB, o Options) *Server {
	t.Helper()
	s := newServer(t, "redis", o, certificatesFor(t, o))
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func certificatesFor(t testing.TB, o Options) *Certificates {
	t.Helper()
	if !o.TLS {
		return nil
	}
	return newCertificates(t)
}

// newServer returns a server that ends with the test. It is not started yet.
func newServer(t testing.TB, name string, o Options, certs *Certificates, role ...string) *Server {
	t.Helper()
	if err := o.validate(); err != nil {
		t.Fatal(err)
	}
	program, err := findServer()
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir, which contains the test's name: a socket's path is limited to about a hundred bytes.
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, name: name, program: program, o: o, certs: certs, role: role, admin: true, dir: dir}
	t.Cleanup(s.close)
	return s
}

func (s *Server) close() {
	s.Kill()
	if s.process != nil && s.t.Failed() {
		s.t.Logf("the end of the log of %s:\n%s", s, s.logFrom(0))
	}
	if s.ports != nil {
		s.ports.release()
	}
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Error(err)
	}
}

// String returns the server's name and address.
func (s *Server) String() string { return s.name + " at " + s.Addr() }

// Addr returns the server's host and port.
func (s *Server) Addr() string { return address(s.port) }

// Socket returns the path of the server's Unix socket, which is always without TLS.
func (s *Server) Socket() string { return filepath.Join(s.dir, "socket") }

// URL returns the server's address as redis://127.0.0.1:6379, with the default user's password if it has one, and as
// rediss:// with TLS.
func (s *Server) URL() string { return urlOf("redis", s.o, s.Addr()) }

// Certificates returns the certificates of the server, or nil without TLS.
func (s *Server) Certificates() *Certificates { return s.certs }

func urlOf(scheme string, o Options, hosts string) string {
	if o.TLS {
		scheme = strings.Replace(scheme, "redis", "rediss", 1)
	}
	u := url.URL{Scheme: scheme, Host: hosts}
	if o.Password != "" {
		u.User = url.UserPassword("", o.Password)
	}
	return u.String()
}

func addrs(servers []*Server) string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.Addr()
	}
	return strings.Join(list, ",")
}

// start starts the server for the first time, on a free port.
func (s *Server) start() error {
	for try := 1; ; try++ {
		p, err := reservePorts()
		if err != nil {
			return err
		}
		if s.ports != nil {
			s.ports.release()
		}
		s.ports, s.port = p, p.port
		if err := os.WriteFile(s.file("redis.conf"), s.config(), 0o600); err != nil {
			return err
		}
		if err = s.launch(); !errors.Is(err, errPortTaken) || try == 10 {
			return err
		}
	}
}

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

func (s *Server) config() []byte {
	lines := []string{
		"bind " + host,
		"dir " + strconv.Quote(s.dir),
		"unixsocket " + strconv.Quote(s.Socket()),
	}
	if s.certs == nil {
		lines = append(lines, fmt.Sprintf("port %d", s.port))
	} else {
		lines = append(lines, "port 0", fmt.Sprintf("tls-port %d", s.port))
		lines = append(lines, s.certs.config()...)
	}
	lines = append(lines, s.role...)
	if s.admin {
		lines = append(lines, s.o.config()...)
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// launch starts the process and waits until it responds.
func (s *Server) launch() error {
	env, err := s.clockEnvironment()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.file("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer closeQuietly(log)
	before, err := log.Stat()
	if err != nil {
		return err
	}
	cmd := exec.Command(s.program, append([]string{s.file("redis.conf")}, s.args...)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = log, log

	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := process.Start(cmd)
	if err != nil {
		return fmt.Errorf("redistest: start %s: %w", s.name, err)
	}
	s.process, s.paused = p, false
	if err := s.awaitResponse(before.Size()); err != nil {
		return err
	}
	if s.fakesClock() {
		unlinkClock(cmd.Process.Pid)
	}
	if s.ready != nil {
		s.ready(s)
	}
	return nil
}

// awaitResponse waits until the process responds. logStart is the size of the log before the process was started.
func (s *Server) awaitResponse(logStart int64) error {
	for deadline := time.Now().Add(maxWait); ; time.Sleep(poll) {
		_, err := s.Do("PING")
		switch {
		case err == nil:
			return nil
		case !s.process.Running():
			tail := s.logFrom(logStart)
			if strings.Contains(tail, "Address already in use") {
				return errPortTaken
			}
			return fmt.Errorf("redistest: %s exited right after its start; its log:\n%s", s, tail)
		case time.Now().After(deadline):
			return fmt.Errorf("redistest: %s does not respond %v after its start: %w; its log:\n%s",
				s, maxWait, err, s.logFrom(logStart))
		}
	}
}

// logFrom returns the last lines of the log after an offset.
func (s *Server) logFrom(offset int64) string {
	const maxLines = 25
	b, err := os.ReadFile(s.file("log"))
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(b[min(offset, int64(len(b))):]), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-maxLines):], []byte("\n")))
}

const doTimeout = 30 * time.Second

// Do sends a command as the user adminName, on its own connection, and returns the reply: a string, an int64, a []any
// or nil. An error reply is a [ReplyError]. Do returns an error after doTimeout.
func (s *Server) Do(args ...string) (any, error) {
	reply, err := s.do(args)
	if err != nil {
		return nil, fmt.Errorf("%s to %s: %w", strings.Join(args[:min(len(args), 3)], " "), s, err)
	}
	return reply, nil
}

func (s *Server) do(args []string) (any, error) {
	c, err := dial("unix", s.Socket(), time.Now().Add(doTimeout))
	if err != nil {
		return nil, err
	}
	defer closeQuietly(c)
	if s.admin {
		if _, err := c.do([]string{"AUTH", adminName, adminPassword}); err != nil {
			return nil, err
		}
	}
	return c.do(args)
}

// must is like Do, but fails the test on an error.
func (s *Server) must(args ...string) any {
	s.t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply
}
