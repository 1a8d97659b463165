package httpapi_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file/enginetest"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/service/httpapi"
)

// An api is a server with its engine and store, on a clock that the test sets.
type api struct {
	*httpapi.Server
	engine *engine.Engine
	store  *enginetest.Store
	inner  *interrupted // below it
	clock  *limittest.Clock
}

// newAPI returns a server with the rules of a file's text. Proxies at 10.0.0.0/8 and 127.0.0.1 are trusted.
func newAPI(t testing.TB, text string, c httpapi.Config) *api {
	t.Helper()
	a := &api{clock: limittest.NewClock()}
	a.init(t, text, c, memstore.Options{Now: a.clock.Now})
	return a
}

// newTimedAPI returns a server that uses the system's clock.
func newTimedAPI(t testing.TB, text string, c httpapi.Config) *api {
	t.Helper()
	a := &api{}
	a.init(t, text, c, memstore.Options{})
	return a
}

func (a *api) init(t testing.TB, text string, c httpapi.Config, o memstore.Options) {
	t.Helper()
	a.engine, a.store = enginetest.New(t, text, o)
	a.inner = &interrupted{Limiter: a.store.Limiter}
	a.store.Limiter = a.inner
	c.Engine = a.engine
	if c.Now == nil {
		c.Now = o.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Identifier == nil {
		c.Identifier = identify(t, "10.0.0.0/8, 127.0.0.1")
	}
	var err error
	if c.Logins == nil {
		c.Logins = newLogins(t, 1000)
	}
	if a.Server, err = httpapi.New(c); err != nil {
		t.Fatal(err)
	}
}

// identify returns an Identifier that trusts some proxies.
func identify(t testing.TB, proxies string) *identity.Identifier {
	t.Helper()
	trusted, err := identity.ParseNetworks(proxies)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.New(identity.Config{TrustedProxies: trusted})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// interrupted is a store that calls a function during decisions.
type interrupted struct {
	headgate.Limiter
	// If set, it is called during a decision, which then ignores the caller's context.
	during func()
}

func (i *interrupted) meanwhile(ctx context.Context) context.Context {
	if i.during == nil {
		return ctx
	}
	i.during()
	return context.WithoutCancel(ctx)
}

func (i *interrupted) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	return i.Limiter.TakeAll(i.meanwhile(ctx), checks, dst)
}

func (i *interrupted) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return i.Limiter.Take(i.meanwhile(ctx), c)
}

// call calls the server without a network.
func (a *api) call(method, path, body string, header ...string) *http.Response {
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, path, from)
	r.RemoteAddr = "10.1.2.3:5000"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w.Result()
}

// text returns the body of a response.
func text(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wants fails unless the response has a status and its body contains a text.
func (a *api) wants(t testing.TB, status int, has, method, path, body string, header ...string) {
	t.Helper()
	r := a.call(method, path, body, header...)
	if got := text(t, r); r.StatusCode != status || !strings.Contains(got, has) {
		t.Errorf("%s %s %s\n got %d %s\nwant %d with %s", method, path, body, r.StatusCode, got, status, has)
	}
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
