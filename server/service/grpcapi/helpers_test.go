package grpcapi

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/service"
)

const tokenText = "a-token-of-sixteen-or-more"

// patience is how long a test waits for an expected event.
const patience = time.Minute

const ruleText = `
rules:
  - id: per-user
    when: { path: /api/** }
    key: [user]
    limits: [3/h]
  - id: gold
    when: { header.x-plan: gold }
    key: [user]
    limits: [5/h]
  - id: jobs
    when: { path: /jobs }
    key: [user]
    limits: [2 concurrent]
  - id: line
    when: { path: /line }
    key: [user]
    limits: [1/s burst 1]
    on_limit: delay 10s
  - id: blocked
    when: { user: mallory }
    block: true
  - id: dropped
    when: { path: /drop }
    key: [user]
    limits: [1/h]
    on_limit: drop
  - id: secret
    when: { path: /secret }
    key: [api_key]
    fallback: deny
    limits: [1/h]
`

func parseRules(t testing.TB, text string) *match.Set {
	t.Helper()
	doc, err := file.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func newStore(t testing.TB, now func() time.Time) *memstore.Store {
	t.Helper()
	store, err := memstore.New(memstore.Options{Now: now, MaxBytes: 32 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func newEngine(t testing.TB, store headgate.Limiter, set *match.Set) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newToken(t testing.TB) *service.Token {
	t.Helper()
	token, err := service.NewToken(tokenText)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// start serves on a free port until the test ends. A Config without an Engine gets one with the rules of ruleText.
func start(t testing.TB, c Config) (*Server, string) {
	t.Helper()
	if c.Engine == nil {
		c.Engine = newEngine(t, newStore(t, nil), parseRules(t, ruleText))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Logins == nil {
		c.Logins = newLogins(t, 1000)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, end := context.WithTimeout(context.Background(), patience)
		defer end()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s, l.Addr().String()
}

func dial(t testing.TB, address string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if options == nil {
		options = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, end := context.WithTimeout(context.Background(), patience)
	t.Cleanup(end)
	return ctx
}

// until waits until a condition is true.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: not yet %s", patience, what)
		}
	}
}

func withToken(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+tokenText)
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
