package telemetry_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/telemetry"
)

func Example() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	user := headgate.Attribute{Kind: headgate.AttrUser}
	set, err := match.Compile([]rules.Rule{{
		ID: "per-user", Key: []headgate.Attribute{user}, Limits: []rules.Limit{{Limit: headgate.Per(2, time.Hour)}},
	}})
	if err != nil {
		panic(err)
	}
	metrics := telemetry.New("1.0.0")
	e, err := engine.New(engine.Config{Rules: set, Store: store, Observe: metrics.Observe})
	if err != nil {
		panic(err)
	}
	metrics.SetRules(telemetry.RuleLoad{Set: e.Rules(), Revision: 1, Loaded: time.Now()})

	var v engine.Verdict
	for range 5 {
		if err := e.Decide(context.Background(), rules.Attributes{user: "alice"}, &v); err != nil {
			panic(err)
		}
	}
	w := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "headgate_decisions_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// headgate_decisions_total{mode="local",rule="per-user",verdict="allow"} 2
	// headgate_decisions_total{mode="local",rule="per-user",verdict="reject"} 3
}
