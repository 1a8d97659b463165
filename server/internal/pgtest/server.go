//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/internal/process"
)

// Options configure a server. The zero Options are good for most tests.
type Options struct {
	// Durable makes the server sync its writes to disk. The default, false, is faster, and loses data only if the machine
	// crashes.
	Durable bool
	// Config has additional lines for postgresql.conf.
	Config []string
}

const (
	host = "127.0.0.1"
	// startTimeout limits the time to start a server.
	startTimeout = 60 * time.Second
)

// A Server is a PostgreSQL server. It keeps its port and its data across Kill and Restart.
type Server struct {
	t          testing.TB
	o          Options
	bin        string // directory of the PostgreSQL binaries
	dir        string
	port       int
	credential *syscall.Credential // user that runs the server; nil for the user of this process
	process    *process.Process
	schemas    atomic.Int64
}

// Start starts a server and waits until it accepts connections.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{t: t, o: o}
	if err := s.prepare(); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(s.close)
	if err := s.initialize(); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			t.Fatalf("pgtest: %v", err)
		}
		s.port = port
		if err = s.launch(); err == nil {
			return s
		}
		// Another process may have taken the port since freePort found it.
		if try == 5 || !strings.Contains(err.Error(), "could not bind") {
			t.Fatalf("pgtest: %v", err)
		}
	}
}

// prepare finds the PostgreSQL binaries and creates a directory.
func (s *Server) prepare() error {
	var err error
	if s.bin, err = findBinaries(); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "pgtest-"); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("PostgreSQL refuses to run as root, and there is no user postgres: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return err
	}
	s.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.dir, int(uid), int(gid))
}

// findBinaries returns the directory of the PostgreSQL binaries: of the latest Debian package, or else on the PATH.
func findBinaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) > 0 {
		version := func(path string) int {
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
			return n
		}
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errors.New("postgres is neither under /usr/lib/postgresql nor on the PATH; " +
		"install the package postgresql, for example with 'tools/need postgres'")
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// initialize creates an empty database cluster.
func (s *Server) initialize() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), "--pgdata", s.data(), "--username", "headgate",
		"--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.credential}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	lines := []string{
		"listen_addresses = '" + host + "'", "unix_socket_directories = ''", "shared_buffers = 16MB",
		"max_connections = 100",
	}
	if !s.o.Durable {
		lines = append(lines, "fsync = off", "synchronous_commit = off", "full_page_writes = off")
	}
	lines = append(lines, s.o.Config...)
	conf, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = conf.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	return errors.Join(err, conf.Close())
}

// launch starts the server and waits until it accepts connections.
func (s *Server) launch() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own handle
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.port))
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
	if s.process, err = process.Start(cmd); err != nil {
		return err
	}
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		err := s.ping()
		switch {
		case err == nil:
			return nil
		case !s.process.Running():
			return fmt.Errorf("the server exited right after it started; its log:\n%s", s.logTail())
		case time.Now().After(deadline):
			return fmt.Errorf("the server does not respond %v after its start: %w; its log:\n%s", startTimeout, err,
				s.logTail())
		}
	}
}

func (s *Server) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.baseURL())
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func (s *Server) baseURL() string {
	return fmt.Sprintf("postgres://headgate@%s/postgres?sslmode=disable", net.JoinHostPort(host, strconv.Itoa(s.port)))
}

// NewSchema creates an empty schema, and returns its URL.
func (s *Server) NewSchema(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("s%d", s.schemas.Add(1))
	s.Exec(t, "CREATE SCHEMA "+name)
	return s.baseURL() + "&search_path=" + name
}

// Exec runs statements as the superuser.
func (s *Server) Exec(t testing.TB, statements string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.baseURL())
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	_, err = conn.Exec(ctx, statements)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		t.Fatalf("pgtest: %s: %v", statements, err)
	}
}

// Kill kills the server immediately, like kill -9. Its backends, the processes that serve connections, exit when they
// notice that the server is gone.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	if err := s.process.Kill(); err != nil {
		s.t.Errorf("pgtest: kill the server: %v", err)
	}
}

// Restart kills the server if it is running, and starts it again on the same port with the same data.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		err := s.launch()
		if err == nil {
			return
		}
		// The server can start only when the backends of the killed server have exited.
		if !strings.Contains(err.Error(), "still in use") || time.Now().After(deadline) {
			s.t.Fatalf("pgtest: %v", err)
		}
	}
}

func (s *Server) close() {
	s.Kill()
	if s.t.Failed() {
		s.t.Logf("end of the PostgreSQL log:\n%s", s.logTail())
	}
	if err := os.RemoveAll(s.dir); err != nil {
		s.t.Error(err)
	}
}

// logTail returns the last lines of the log.
func (s *Server) logTail() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-25):], "\n")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
