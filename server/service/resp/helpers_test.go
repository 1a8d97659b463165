package resp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/service/resp"
)

// patience is how long a test waits for an event, even on a busy machine.
const patience = time.Minute

func newStore(t testing.TB, o memstore.Options) *memstore.Store {
	t.Helper()
	store, err := memstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

var (
	user = headgate.Attribute{Kind: headgate.AttrUser}
	ip   = headgate.Attribute{Kind: headgate.AttrIP}
	plan = headgate.Attribute{Kind: headgate.AttrHeader, Name: "x-plan"}
)

func limits(texts ...string) []rules.Limit {
	var list []rules.Limit
	for _, text := range texts {
		list = append(list, rules.Limit{Limit: headgate.MustParseLimit(text)})
	}
	return list
}

// testRules are rules with all kinds of replies.
func testRules() []rules.Rule {
	return []rules.Rule{
		{ID: "per-user", Key: []headgate.Attribute{user}, Limits: limits("5/h")},
		{ID: "per-ip", Key: []headgate.Attribute{ip}, Limits: limits("5/h")},
		{ID: "per-plan", Key: []headgate.Attribute{plan}, Limits: limits("5/h")},
		{ID: "per-both", Key: []headgate.Attribute{user, plan}, Limits: limits("5/h")},
		{ID: "for-all", Limits: limits("5/h")},
		{ID: "places", Key: []headgate.Attribute{user}, Limits: limits("2 concurrent ttl 1h")},
		{ID: "line", Key: []headgate.Attribute{user}, Limits: limits("1/s burst 1"), OnLimit: rules.OnLimit{Action: rules.Delay, MaxWait: 5 * time.Second}},
		{ID: "careful", Key: []headgate.Attribute{user}, Limits: limits("5/h"), OnFailure: headgate.Closed},
		{ID: "free", Unlimited: true},
		{ID: "closed", Block: true},
		{
			ID: "gold", Key: []headgate.Attribute{user}, Limits: limits("5/h"),
			Overrides: []rules.Override{{When: rules.Condition{Tests: []rules.Test{{Attribute: plan, Values: []string{"gold"}}}}, Limits: limits("50/h")}},
		},
	}
}

func newEngine(t testing.TB, c engine.Config) *engine.Engine {
	t.Helper()
	set, err := match.Compile(testRules())
	if err != nil {
		t.Fatal(err)
	}
	c.Rules = set
	e, err := engine.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// onMemory returns the settings of a server that counts in memory.
func onMemory(t testing.TB, o memstore.Options) resp.Config {
	t.Helper()
	store := newStore(t, o)
	return resp.Config{
		Engine: newEngine(t, engine.Config{Store: store}), Store: store, Logger: slog.New(slog.DiscardHandler),
		Bind: func(l headgate.Limit) (resp.Bound, error) { return store.Prepare(l, headgate.Open) },
	}
}

// A running server and its address.
type running struct {
	*resp.Server
	address string
}

func serve(t testing.TB, c resp.Config) running {
	t.Helper()
	if c.Logins == nil {
		c.Logins = newLogins(t, 1000)
	}
	s, err := resp.New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, s, l)
}

func serveOn(t testing.TB, s *resp.Server, l net.Listener) running {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return running{s, l.Addr().String()}
}

func token(t testing.TB, text string) *service.Token {
	t.Helper()
	made, err := service.NewToken(text)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// A client sends bytes and reads replies.
type client struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func dial(t testing.TB, address string) *client {
	t.Helper()
	nc, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &client{Conn: nc, t: t, r: bufio.NewReader(nc)}
}

func (c *client) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Fatalf("send %.60q: %v", text, err)
	}
}

func (c *client) hangUp() {
	c.t.Helper()
	if err := c.Close(); err != nil {
		c.t.Error(err)
	}
}

// half closes the sending side.
func (c *client) half() {
	c.t.Helper()
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
}

// encode writes a command as clients do.
func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// do sends a command and returns its reply, as readReply formats it.
func (c *client) do(args ...string) string {
	c.t.Helper()
	c.send(encode(args...))
	return c.read()
}

func (c *client) read() string {
	c.t.Helper()
	answer, err := readReply(c.r)
	if err != nil {
		c.t.Fatalf("read an answer: %v", err)
	}
	return answer
}

// wants fails the test unless a command gets this reply.
func (c *client) wants(want string, args ...string) {
	c.t.Helper()
	if got := c.do(args...); got != want {
		c.t.Errorf("%.100q: got %.300q, want %.300q", args, got, want)
	}
}

// closed waits until the server has closed the connection, and returns the bytes received before.
func (c *client) closed() string {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	var fault net.Error
	if errors.As(err, &fault) && fault.Timeout() {
		c.t.Fatalf("the connection stays open; received %q", rest)
	}
	return string(rest)
}

// readReply returns a reply in one line: elements are separated by spaces, and nested lists are in brackets
// too.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	if !strings.HasSuffix(line, "\r\n") || len(line) < 3 {
		return "", fmt.Errorf("a line %q", line)
	}
	kind, line := line[0], line[1:len(line)-2]
	switch kind {
	case '+', '-', ':':
		return line, nil
	case '_':
		return "(null)", nil
	}
	n, err := strconv.Atoi(line)
	if err != nil {
		return "", err
	}
	switch kind {
	case '$', '=':
		if n < 0 {
			return "(null)", nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		if !bytes.HasSuffix(b, []byte("\r\n")) {
			return "", fmt.Errorf("a text that ends in %q", b[n:])
		}
		return string(b[:n]), nil
	case '*', '~', '%':
		if n < 0 {
			return "(null)", nil
		}
		if kind == '%' {
			n *= 2
		}
		var parts []string
		for range n {
			b, err := r.Peek(1)
			if err != nil {
				return "", err
			}
			nested := strings.IndexByte("*~%", b[0]) >= 0 // before the next read overwrites b
			part, err := readReply(r)
			if err != nil {
				return "", err
			}
			if nested {
				part = "[" + part + "]"
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, " "), nil
	default:
		return "", fmt.Errorf("a reply of kind %q", kind)
	}
}

// program returns the path of a program of the Redis package.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath(strings.Replace(name, "redis", "valkey", 1))
	}
	if err != nil {
		t.Fatalf("%v: want it from Debian's redis-tools", err)
	}
	return path
}

// output runs a program to its end.
func output(t testing.TB, stdin, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, name), args...)
	cmd.Stdin = strings.NewReader(stdin)
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, said)
	}
	return string(said)
}

func newLogins(t testing.TB, most int64) *service.Logins {
	t.Helper()
	made, err := service.NewLogins(service.LoginOptions{Limit: headgate.PerHour(most), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}
