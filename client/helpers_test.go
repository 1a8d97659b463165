package client

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/service/grpcapi"
)

const tokenText = "a-token-of-sixteen-or-more"

// patience is how long a test waits for what must happen.
const patience = time.Minute

const ruleText = `
rules:
  - id: per-user
    when: { path: /api/** }
    key: [user]
    limits: [3/h]
  - id: jobs
    when: { path: /jobs }
    key: [user]
    limits: [2 concurrent]
  - id: line
    when: { path: /line }
    key: [user]
    limits: [1/s burst 1]
    on_limit: delay 10s
  - id: wide
    when: { path: /wide }
    key: [user]
    limits: [1000000/h]
  - id: blocked
    when: { user: mallory }
    block: true
`

// A host is a decision service.
type host struct {
	t       testing.TB
	store   *memstore.Store
	config  grpcapi.Config
	server  *grpcapi.Server
	address string
	served  chan error
}

// newHost runs a service with rules and a store until the test ends.
func newHost(t testing.TB, now func() time.Time, c grpcapi.Config) *host {
	t.Helper()
	store, err := memstore.New(memstore.Options{Now: now, MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := file.Parse("rules.yaml", []byte(ruleText))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if c.Engine, err = engine.New(engine.Config{Store: store, Rules: set}); err != nil {
		t.Fatal(err)
	}
	if c.Token, err = service.NewToken(tokenText); err != nil {
		t.Fatal(err)
	}
	if c.Logins, err = service.NewLogins(service.LoginOptions{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if c.Store == nil {
		c.Store = unsigned{store}
	}
	c.Logger = slog.New(slog.DiscardHandler)
	h := &host{t: t, store: store, config: c}
	h.start("127.0.0.1:0")
	t.Cleanup(func() {
		h.stop()
		_ = c.Logins.Close()
		_ = store.Close()
	})
	return h
}

func (h *host) start(address string) {
	h.t.Helper()
	server, err := grpcapi.New(h.config)
	if err != nil {
		h.t.Fatal(err)
	}
	var l net.Listener
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if l, err = net.Listen("tcp", address); err == nil {
			break
		}
		if time.Now().After(deadline) {
			h.t.Fatal(err)
		}
	}
	h.server, h.address, h.served = server, l.Addr().String(), make(chan error, 1)
	go func(served chan error) { served <- server.Serve(l) }(h.served)
}

func (h *host) stop() {
	h.t.Helper()
	if h.server == nil {
		return
	}
	ctx, end := context.WithTimeout(context.Background(), patience)
	defer end()
	if err := h.server.Shutdown(ctx); err != nil {
		h.t.Errorf("shutdown: %v", err)
	}
	if err := <-h.served; err != nil {
		h.t.Errorf("serve: %v", err)
	}
	h.server = nil
}

// client returns a client of the service. Its deadline is long unless told otherwise.
func (h *host) client(o Options) *Client {
	h.t.Helper()
	o.Address = h.address
	if o.Token == "" {
		o.Token = tokenText
	}
	if o.Deadline == 0 {
		o.Deadline = patience
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := New(o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			h.t.Error(err)
		}
	})
	return c
}

func patient(t testing.TB) context.Context {
	t.Helper()
	ctx, end := context.WithTimeout(context.Background(), patience)
	t.Cleanup(end)
	return ctx
}

func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: not yet %s", patience, what)
		}
	}
}

func check(key string, cost int64) headgate.Check {
	return headgate.Check{Key: key, Limit: headgate.PerHour(3), Cost: cost}
}
