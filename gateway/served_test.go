package gateway

import (
	"net/http"
	"testing"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules/file"
)

func newStore(t testing.TB, o memstore.Options) *memstore.Store {
	t.Helper()
	s, err := memstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// limitIn returns the limiter itself, by rules in YAML.
func limitIn(t testing.TB, store *memstore.Store, id *identity.Identifier, rules string) func(http.Handler) http.Handler {
	t.Helper()
	doc, err := file.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	limit, err := httplimit.New(httplimit.Config{Engine: e, Identifier: id})
	if err != nil {
		t.Fatal(err)
	}
	return limit
}

// What an answer would have said is not known of a request that no upstream has seen: the estimate is given back. A cost that
// is known before stays, so that an upstream that is down is not one without limits.
func TestEstimateIsGivenBackIfNoUpstreamWasReached(t *testing.T) {
	const rules = `
rules:
  - { id: tokens, when: { path: /chat }, key: ip, limits: 100/h, cost: { response_header: X-Tokens-Used, estimate: 60 } }
  - { id: fixed, when: { path: /fixed }, key: ip, limits: 100/h, cost: 60 }
`
	up := newRecorder(t)
	for _, tt := range []struct {
		name, upstream, path string
		want                 []int
	}{
		{"an upstream that is not there", refusing(t), "/chat", []int{502, 502, 502}},
		{"a cost that is known", refusing(t), "/fixed", []int{502, 429}},
		{"an upstream that answers", up.URL, "/chat", []int{200, 429}},
		{"an upstream that hangs up", fake(t, says("")), "/chat", []int{502, 429}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := before(tt.upstream)
			c.Identity = identify(t, identity.Config{})
			c.Limit = limitIn(t, newStore(t, memstore.Options{}), c.Identity, rules)
			g := start(t, c)
			for i, want := range tt.want {
				if a := get(t, g, tt.path); a.status != want {
					t.Errorf("request %d: %d, want %d", i, a.status, want)
				}
			}
		})
	}
}
