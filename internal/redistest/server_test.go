package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// client returns a connection as the default user.
func client(t testing.TB, network, addr string) *conn {
	t.Helper()
	c, err := dial(network, addr, time.Now().Add(doTimeout))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeQuietly(c) })
	return c
}

// expect sends a command and compares its reply, or the beginning of its error, as text.
func expect(t testing.TB, c *conn, want string, args ...string) {
	t.Helper()
	reply, err := c.do(args)
	got := fmt.Sprint(reply)
	if err != nil {
		got = err.Error()
	}
	if got != want && (err == nil || !strings.HasPrefix(got, want)) {
		t.Errorf("%s: got %q, want %q", strings.Join(args, " "), got, want)
	}
}

func TestAServerAnswersOnItsPortAndItsSocket(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	expect(t, client(t, "tcp", s.Addr()), "OK", "SET", "key", "value")
	expect(t, client(t, "unix", s.Socket()), "value", "GET", "key")
	if got, want := s.URL(), "redis://"+s.Addr(); got != want {
		t.Errorf("URL: got %s, want %s", got, want)
	}
}

func TestDoReturnsEveryKindOfReply(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	for _, tt := range []struct {
		command string
		want    any
	}{
		{"SET key a\r\nb", "OK"},
		{"GET key", "a\r\nb"},
		{"GET other", nil},
		{"STRLEN key", int64(4)},
		{"EVAL return{1,'x',{},false,{err='NO'}} 0", []any{int64(1), "x", []any{}, nil, ReplyError("NO")}},
		{"BLPOP list 0.001", nil},
	} {
		got, err := s.Do(strings.Split(tt.command, " ")...)
		if err != nil || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", tt.want) {
			t.Errorf("%s: got %#v, %v; want %#v", tt.command, got, err, tt.want)
		}
	}
	var e ReplyError
	if _, err := s.Do("LPUSH", "key", "x"); !errors.As(err, &e) || !refused(err, "WRONGTYPE") {
		t.Errorf("LPUSH to a string: got %v, want a ReplyError WRONGTYPE", err)
	}
}

func TestARestartKeepsThePortAndDataOnlyIfAsked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		persist bool
		want    any
	}{{false, nil}, {true, "value"}} {
		s := Standalone(t, Options{Persist: tt.persist})
		addr := s.Addr()
		s.must("SET", "key", "value")
		s.Kill()
		s.Kill() // changes nothing
		if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial a killed server: got %v, want refused", err)
		}
		s.Restart()
		if got := s.must("GET", "key"); got != tt.want || s.Addr() != addr {
			t.Errorf("Persist %v: got %v at %s after a restart, want %v at %s", tt.persist, got, s.Addr(), tt.want, addr)
		}
	}
}

func TestAPausedServerAcceptsAndDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	c := client(t, "tcp", s.Addr())
	s.Pause()
	if s.Running() {
		t.Error("a paused server runs")
	}
	if _, err := c.Write(command([]string{"INCR", "key"})); err != nil {
		t.Fatal(err)
	}
	client(t, "tcp", s.Addr())
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read from a paused server: got %d bytes, %v; want none in time", n, err)
	}
	s.Resume()
	if err := c.SetReadDeadline(time.Now().Add(doTimeout)); err != nil {
		t.Fatal(err)
	}
	if got, err := readReply(c.replies); got != int64(1) {
		t.Errorf("after Resume: got %v, %v; want 1", got, err)
	}
	if !s.Running() {
		t.Error("a resumed server does not run")
	}
}

func TestPasswordsAndUsersAreAskedFor(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{Password: `p "w`, Users: []string{"alice on >secret ~a:* +get +set"}})
	c := client(t, "tcp", s.Addr())
	expect(t, c, "NOAUTH", "PING")
	expect(t, c, "WRONGPASS", "AUTH", "wrong")
	expect(t, c, "OK", "AUTH", `p "w`)
	expect(t, c, "PONG", "PING")
	expect(t, c, "OK", "AUTH", "alice", "secret")
	expect(t, c, "OK", "SET", "a:1", "x")
	expect(t, c, "NOPERM", "SET", "b:1", "x")
	expect(t, c, "NOPERM", "EVAL", "return 1", "0")
	if got, want := s.URL(), "redis://:p%20%22w@"+s.Addr(); got != want {
		t.Errorf("URL: got %s, want %s", got, want)
	}
}

func TestAServerWithoutScriptsRunsThemForTheHarnessOnly(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{NoScripts: true})
	c := client(t, "tcp", s.Addr())
	for _, args := range [][]string{{"EVAL", "return 1", "0"}, {"EVALSHA", "x", "0"}, {"SCRIPT", "LOAD", "return 1"}} {
		expect(t, c, "NOPERM", args...)
	}
	expect(t, c, "OK", "SET", "key", "value")
	if got := s.must("EVAL", "return 1", "0"); got != int64(1) {
		t.Errorf("EVAL by the harness: got %v, want 1", got)
	}
}

func TestTLSIsAllThatItsPortSpeaks(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{TLS: true})
	c, err := tls.Dial("tcp", s.Addr(), s.Certificates().ClientConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer closeQuietly(c)
	expect(t, newConn(c), "PONG", "PING")

	if c, err := tls.Dial("tcp", s.Addr(), &tls.Config{RootCAs: x509.NewCertPool()}); err == nil {
		closeQuietly(c)
		t.Error("a client that does not know the CA: got a connection, want an error")
	}
	if reply, err := client(t, "tcp", s.Addr()).do([]string{"PING"}); err == nil {
		t.Errorf("PING without TLS: got %v, want an error", reply)
	}
	if got, want := s.URL(), "rediss://"+s.Addr(); got != want {
		t.Errorf("URL: got %s, want %s", got, want)
	}
}

func TestAServerCanWantToSeeACertificate(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{TLS: true, Config: []string{"tls-auth-clients yes"}})
	config := s.Certificates().ClientConfig()
	ping := func() error {
		c, err := tls.Dial("tcp", s.Addr(), config)
		if err != nil {
			return err
		}
		defer closeQuietly(c)
		_, err = newConn(c).do([]string{"PING"})
		return err
	}
	if err := ping(); err == nil {
		t.Error("without a certificate: got a reply, want an error")
	}
	cert, err := tls.LoadX509KeyPair(s.Certificates().CertFile, s.Certificates().KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{cert}
	if err := ping(); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
}

func TestAServersClockIsOffByTheOffset(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{-10 * time.Second, 10 * time.Second, -1500 * time.Millisecond} {
		s := Standalone(t, Options{ClockOffset: offset})
		if got := clockOffset(t, s); (got - offset).Abs() > time.Second {
			t.Errorf("got a clock %v ahead, want %v", got, offset)
		}
	}
}

func TestMoveClockChangesTheClockOfARunningServer(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{MovableClock: true})
	for _, offset := range []time.Duration{0, time.Hour, -time.Minute} {
		s.MoveClock(offset)
		if err := waitUntil("see the clock", func() error {
			if got := clockOffset(t, s); (got - offset).Abs() > time.Second {
				return fmt.Errorf("got a clock %v ahead, want %v", got, offset)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// clockOffset returns how far a server's clock is ahead of ours.
func clockOffset(t testing.TB, s *Server) time.Duration {
	t.Helper()
	for {
		var sec, usec int64
		before := time.Now()
		if _, err := fmt.Sscanf(fmt.Sprint(s.must("TIME")), "[%d %d]", &sec, &usec); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(before); took < time.Second/2 { // or it is not known when that was
			return time.Unix(sec, usec*1000).Sub(before)
		}
	}
}

func TestConfigLinesWinOverOurs(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{Config: []string{"maxclients 7", `rename-command EVAL ""`, "appendonly yes"}})
	if got := fmt.Sprint(s.must("CONFIG", "GET", "maxclients"), s.must("CONFIG", "GET", "appendonly")); got != "[maxclients 7] [appendonly yes]" {
		t.Errorf("got %s, want [maxclients 7] [appendonly yes]", got)
	}
	expect(t, client(t, "tcp", s.Addr()), "ERR unknown command", "EVAL", "return 1", "0")
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{MaxMemory: -1}, {MaxMemoryPolicy: "allkeys-lru"}, {MovableClock: true, ClockOffset: time.Second},
	} {
		if err := o.validate(); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
	if _, err := (Options{}).withClocks(1, make([]time.Duration, 2)); err == nil {
		t.Error("two clocks for one server: got no error")
	}
}
