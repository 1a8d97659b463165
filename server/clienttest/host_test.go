package clienttest

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/service/grpcapi"
)

const tokenText = "a-token-of-sixteen-or-more"

// patience is the longest time that a test waits for a response.
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
  - id: delayed
    when: { path: /delayed }
    key: [user]
    limits: [1/s burst 1]
    on_limit: delay 10s
  - id: high
    when: { path: /high }
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
		c.Store = withoutPrefix{store}
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
	await.NoError(h.t, "listen on "+address, func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	h.server, h.address, h.served = server, l.Addr().String(), make(chan error, 1)
	go func(served chan error) { served <- server.Serve(l) }(h.served)
}

func (h *host) stop() {
	h.t.Helper()
	if h.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.server.Shutdown(ctx); err != nil {
		h.t.Errorf("shutdown: %v", err)
	}
	if err := <-h.served; err != nil {
		h.t.Errorf("serve: %v", err)
	}
	h.server = nil
}

// client returns a client of the service. Its default deadline is long.
func (h *host) client(o client.Options) *client.Client {
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
	c, err := client.New(o)
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

// request returns the request of a user for a path.
func request(user, path string) client.Request {
	return client.Request{User: user, Attributes: map[string]string{"path": path}}
}

func perHour(key string, cost int64) headgate.Check {
	return headgate.Check{Key: key, Limit: headgate.PerHour(3), Cost: cost}
}
