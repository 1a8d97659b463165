package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// example returns an engine with one rule, on a clock that stands still so that the outputs below never change.
func example(rule rules.Rule) (e *engine.Engine, clock *limittest.Clock, done func()) {
	clock = limittest.NewClock()
	store, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		panic(err)
	}
	set, err := match.Compile([]rules.Rule{rule})
	if err != nil {
		panic(err)
	}
	e, err = engine.New(engine.Config{Rules: set, Store: store})
	if err != nil {
		panic(err)
	}
	return e, clock, func() { store.Close() }
}

// Each API key has two requests a minute.
func ExampleNew() {
	decide, clock, done := example(rules.Rule{
		ID:     "per-key",
		Key:    []headgate.Attribute{{Kind: headgate.AttrAPIKey}},
		Limits: []rules.Limit{{Limit: headgate.MustParseLimit("2/m fixed-window")}},
	})
	defer done()
	limit, err := httplimit.New(httplimit.Config{Engine: decide, Now: clock.Now})
	if err != nil {
		panic(err)
	}
	service := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	server := httptest.NewServer(limit(service))
	defer server.Close()

	for _, key := range []string{"alice", "alice", "alice", "bob"} {
		r, err := http.NewRequest(http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			panic(err)
		}
		r.Header.Set("X-API-Key", key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %d, RateLimit: %s", key, resp.StatusCode, resp.Header.Get("RateLimit"))
		if retry := resp.Header.Get("Retry-After"); retry != "" {
			body, _ := io.ReadAll(resp.Body)
			fmt.Printf(", Retry-After: %s\n%s", retry, body)
		} else {
			fmt.Println()
		}
		resp.Body.Close()
	}
	// Output:
	// alice: 200, RateLimit: "per-key";r=1;t=60
	// alice: 200, RateLimit: "per-key";r=0;t=60
	// alice: 429, RateLimit: "per-key";r=0;t=60, Retry-After: 60
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"Over the limit. Try again in 60 s.","violated-policies":["per-key"]}
	// bob: 200, RateLimit: "per-key";r=1;t=60
}

// The service of a model reports how many tokens a response used. The estimate is taken before the request is served,
// and the difference is settled after it.
func ExampleNew_costOfTheResponse() {
	decide, clock, done := example(rules.Rule{
		ID:     "tokens",
		Key:    []headgate.Attribute{{Kind: headgate.AttrAPIKey}},
		Limits: []rules.Limit{{Limit: headgate.MustParseLimit("1000/h")}},
		Cost:   rules.Cost{ResponseHeader: "X-Tokens-Used", Estimate: 100},
	})
	defer done()
	limit, err := httplimit.New(httplimit.Config{Engine: decide, Now: clock.Now})
	if err != nil {
		panic(err)
	}
	model := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Tokens-Used", r.URL.Query().Get("uses"))
	}))
	for _, uses := range []string{"30", "870", "100", "1"} {
		r := httptest.NewRequest(http.MethodPost, "/chat?uses="+uses, http.NoBody)
		r.Header.Set("X-API-Key", "alice")
		w := httptest.NewRecorder()
		model.ServeHTTP(w, r)
		fmt.Println(uses, "tokens:", w.Code, "left before they were used:", w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 30 tokens: 200 left before they were used: 900
	// 870 tokens: 200 left before they were used: 870
	// 100 tokens: 200 left before they were used: 0
	// 1 tokens: 429 left before they were used: 0
}

// Behind a trusted proxy, the client is the address in X-Forwarded-For.
func ExampleConfig() {
	decide, clock, done := example(rules.Rule{
		ID:     "per-address",
		Key:    []headgate.Attribute{{Kind: headgate.AttrIP}},
		Limits: []rules.Limit{{Limit: headgate.MustParseLimit("1/m")}},
	})
	defer done()
	proxies, err := identity.ParseNetworks("10.0.0.0/8")
	if err != nil {
		panic(err)
	}
	who, err := identity.New(identity.Config{TrustedProxies: proxies})
	if err != nil {
		panic(err)
	}
	limit, err := httplimit.New(httplimit.Config{
		Engine:     decide,
		Identifier: who,
		Fields:     httplimit.Fields{NoRateLimit: true, ResetDelta: true},
		Now:        clock.Now,
	})
	if err != nil {
		panic(err)
	}
	service := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, client := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2"} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = "10.1.2.3:4567" // the proxy
		r.Header.Set("X-Forwarded-For", client)
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		h := w.Header()
		fmt.Println(client, w.Code, h.Get("X-RateLimit-Remaining"), "of", h.Get("X-RateLimit-Limit"), "reset in", h.Get("X-RateLimit-Reset"))
	}
	// Output:
	// 192.0.2.1 200 0 of 1 reset in 60
	// 192.0.2.1 429 0 of 1 reset in 60
	// 192.0.2.2 200 0 of 1 reset in 60
}
