package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

// A gate is a middleware with what is behind it, on a clock that stands still until it is set.
type gate struct {
	engine *engine.Engine
	store  *enginetest.Store
	clock  *limittest.Clock
	limit  func(http.Handler) http.Handler
}

// Keys of rules.
var (
	byIP     = []headgate.Attribute{{Kind: headgate.AttrIP}}
	byAPIKey = []headgate.Attribute{{Kind: headgate.AttrAPIKey}}
)

// perIP returns a rule that limits each client address.
func perIP(limits ...string) []rules.Rule {
	return []rules.Rule{{ID: "a", Key: byIP, Limits: enginetest.Limits(limits...)}}
}

// onPath returns a condition that is true of one path.
func onPath(path string) rules.Condition {
	return rules.Condition{Tests: []rules.Test{{
		Attribute: headgate.Attribute{Kind: headgate.AttrPath}, Values: []string{path},
	}}}
}

// newGate returns a gate with some rules.
func newGate(t testing.TB, list []rules.Rule, c httplimit.Config) *gate {
	t.Helper()
	g := &gate{clock: limittest.NewClock()}
	g.init(t, list, c, memstore.Options{Now: g.clock.Now})
	return g
}

// newTimedGate returns a gate that uses the system's clock.
func newTimedGate(t testing.TB, list []rules.Rule, c httplimit.Config) *gate {
	t.Helper()
	g := &gate{}
	g.init(t, list, c, memstore.Options{})
	return g
}

func (g *gate) init(t testing.TB, list []rules.Rule, c httplimit.Config, o memstore.Options) {
	t.Helper()
	g.engine, g.store = enginetest.New(t, list, o)
	c.Engine = g.engine
	if c.Now == nil {
		c.Now = o.Now
	}
	if c.OnError == nil {
		c.OnError = func(r *http.Request, err error) { t.Errorf("OnError: %s %s: %v", r.Method, r.URL, err) }
	}
	var err error
	if g.limit, err = httplimit.New(c); err != nil {
		t.Fatal(err)
	}
}

// serve starts a server of HTTP/1.1 and returns its address, http://127.0.0.1:port.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// ok answers 200.
var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(okText) })

var okText = []byte("ok\n")

// get asks once, with a header of names and values in turn.
func get(t testing.TB, url string, header ...string) (status int, answered http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil { // so that the connection is used again
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header
}

// shut closes what may be closed already.
func shut(c io.Closer) { c.Close() }
