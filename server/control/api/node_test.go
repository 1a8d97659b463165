package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/token"
)

func TestHeartbeatsAreListed(t *testing.T) {
	now := newClock()
	s := open(t, api.Config{Heartbeat: 7 * time.Second, Now: now.time})
	revision := s.call("POST", "/v1/rules", searchRule).wants(201).etag()
	bearer := s.token("node", token.Node, "default")
	beat := `{"id":"n1","namespace":"default","version":"1.0","revision":%d,"lag_ms":12,"store":"ok","started":"2026-01-01T00:00:00Z"}`
	s.as(bearer, "PUT", "/v1/nodes/n1", fmt.Sprintf(beat, revision)).wants(200, fmt.Sprintf(`{"revision":%d,"interval_ms":7000}`, revision))
	s.call("GET", "/v1/nodes", "").wants(200, `"id":"n1"`, `"lag_ms":12`, fmt.Sprintf(`"revision":%d}`, revision))
	if got := s.call("GET", "/v1/nodes", ""); strings.Contains(got.body, "behind") {
		t.Errorf("a node that has the latest is behind: %s", got.body)
	}
	s.call("PATCH", "/v1/rules/search", `{"priority":1}`).wants(200)
	s.call("GET", "/v1/nodes", "").wants(200, `"behind":true`)
	// Seen advances with each heartbeat, even if it is not written.
	now.add(20 * time.Second)
	s.as(bearer, "PUT", "/v1/nodes/n1", fmt.Sprintf(beat, revision)).wants(200)
	s.call("GET", "/v1/nodes", "").wants(200, `"seen":"`+now.time().UTC().Format(time.RFC3339Nano))
	if _, err := s.server.Heartbeat(t.Context(), control.Node{ID: "n2", Namespace: "default", Store: "ok"}); err != nil {
		t.Fatal(err)
	}
	s.call("GET", "/v1/nodes", "").wants(200, `"id":"n2"`)
	s.call("GET", "/v1/nodes?namespace=blog", "").wants(200, `"nodes":[]`)
	for _, body := range []string{`{"id":"other"}`, `{"namespace":"blog"}`, `{"version":1}`, `{"error":"` + strings.Repeat("x", 5000) + `"}`} {
		s.as(bearer, "PUT", "/v1/nodes/n1", body).wants(422)
	}
	s.as(bearer, "PUT", "/v1/nodes/a%2Fb", `{}`).wants(422)
}

// The holder of a token for the nodes of a namespace can register up to the maximum, and shuts out only its own nodes.
func TestOneNamespaceCannotFillTheRegistry(t *testing.T) {
	now := newClock()
	s := open(t, api.Config{Now: now.time})
	const most = 10
	s.server.SetMaxNodes(most)
	beat := func(namespace string, n, want int) {
		t.Helper()
		now.add(time.Second)
		s.call("PUT", fmt.Sprintf("/v1/nodes/n%d?namespace=%s", n, namespace), `{}`).wants(want)
	}
	for i := range most {
		beat("greedy", i, 200)
	}
	beat("greedy", most, 503)
	for i := range most / 2 {
		beat("shop", i, 200)
		beat("greedy", most+i, 503)
	}
	beat("shop", most, 503)
	beat("blog", 0, 200)
	for i := range most / 2 { // nodes of the other namespace stay
		beat("shop", i, 200)
	}
	beat("greedy", most-1, 200) // replaces the nodes with the oldest heartbeats
	beat("greedy", 0, 503)
	now.add(2 * time.Hour)
	beat("greedy", 0, 200)
	list := s.call("GET", "/v1/nodes?namespace=shop", "").wants(200)
	if got := strings.Count(list.body, `"namespace":"shop"`); got != most/2 || strings.Contains(list.body, "greedy") {
		t.Errorf("got %d nodes of the shop, want %d and no others: %s", got, most/2, list.body)
	}
}

// Names that are not text are not looked up in a database.
func TestInvalidUTF8IsAClientError(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules", searchRule).wants(201)
	for _, bad := range []string{"%00", "%ff", "search%00", "search%ff", "%ed%a0%80"} {
		for _, path := range []string{"/v1/rules/", "/v1/clients/", "/v1/overrides/", "/v1/tokens/", "/v1/webhooks/"} {
			s.call("GET", path+bad, "").wants(404)
			s.call("DELETE", path+bad, "").wants(404)
		}
		s.call("PUT", "/v1/rules/"+bad, searchRule).wants(404)
		s.call("PUT", "/v1/nodes/"+bad, `{}`).wants(404)
		s.call("GET", "/v1/webhooks/"+bad+"/deliveries", "").wants(404)
		for _, path := range []string{
			"/v1/rules?q=", "/v1/clients?q=", "/v1/overrides?q=", "/v1/revisions?kind=rule&id=", "/v1/revisions?kind=", "/v1/audit?kind=token&id=",
			"/v1/audit?namespace=", "/v1/rules?namespace=", "/v1/rules?cursor=", "/v1/snapshot?since=",
		} {
			s.call("GET", path+bad, "").wants(400)
		}
		s.call("PUT", "/v1/rules/search?note="+bad, searchRule).wants(400)
	}
}

// setOf returns the rules of a file.
func setOf(t testing.TB, text string) *match.Set {
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

// engineOf returns an engine with rules.
func engineOf(t testing.TB, text string) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Config{Store: memory(t), Rules: setOf(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const explained = `
rules:
  - { id: search, when: { path: /search/** }, key: user, limits: 3/h, overrides: [{ when: { user: vip }, unlimited: true }] }
  - { id: all, limits: 100/h }
  - { id: by-address, key: ip, limits: 50/h }
  - { id: pair, key: [user, header.x-part], limits: 9/h, fallback: skip }
clients:
  - { id: acme, limits: 5/h }
`

func TestExplainTakesNothing(t *testing.T) {
	e := engineOf(t, explained)
	s := open(t, api.Config{Node: e})
	ask := `{"attributes":{"user":"bob","path":"/search/x","ip":"192.0.2.9"}}`
	for range 5 {
		s.call("POST", "/v1/explain", ask).wants(200, `"action":"allow"`, `"id":"search"`, `"remaining":3`, `"id":"all"`, `"remaining":100`,
			`"key":[{"attribute":"user","value":"bob"}]`, `"limit":"3/h"`)
	}
	var v engine.Verdict
	who := rules.Attributes{}
	for name, value := range map[string]string{"user": "bob", "path": "/search/x", "ip": "192.0.2.9"} {
		who[attribute(t, name)] = value
	}
	for range 3 {
		if err := e.Decide(t.Context(), who, &v); err != nil {
			t.Fatal(err)
		}
	}
	s.call("POST", "/v1/explain", ask).wants(200, `"action":"reject"`, `"status":429`, `"rule":"search"`, `"remaining":0`, `"denied":true`)
	s.call("POST", "/v1/explain", `{"request":{"method":"GET","url":"https://api.example.com/search/x?a=b","headers":{"X-Part":"7","X-API-Key":"k","X-Other":"1"},"ip":"192.0.2.9"}}`).
		wants(200, `"id":"search"`, `"attribute":"ip","value":"192.0.2.9"`, `"unused_headers":["X-Other"]`)
	s.call("POST", "/v1/explain", `{"attributes":{"user":"acme"},"rule":"search","cost":4}`).wants(200, `"client":"acme"`, `"capacity":5`, `"cost":4`)
	s.call("POST", "/v1/explain", `{"attributes":{"user":"vip","path":"/search/x"}}`).wants(200, `"override":0`, `"effect":"unlimited"`)
	s.call("POST", "/v1/explain", `{"rule":"none"}`).wants(404)
	s.call("POST", "/v1/explain?namespace=blog", ask).wants(404, "no node with the rules")
	for _, body := range []string{`{"attributes":{"colour":"red"}}`, `{"attributes":{"ip":"x"}}`, `{"request":{"url":"::"}}`, `{"request":{"url":"/x","ip":"x"}}`, `{"attributes":{},"request":{"url":"/"}}`, `{"cost":-1}`} {
		s.call("POST", "/v1/explain", body).wants(http.StatusUnprocessableEntity)
	}
}

func TestDraftIsExplainedWithoutBeingInForce(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/explain?draft", `{"attributes":{"user":"bob"},"draft":{"rules":[{"id":"new","key":["user"],"limits":["7/h","1/s sliding-window"],"consistency":"async"}]}}`).
		wants(200, `"draft":true`, `"id":"new"`, `"remaining":7`, `"mode":"async"`)
	s.call("POST", "/v1/explain", `{"attributes":{"user":"bob"},"cost":9,"draft":{"id":"one","key":["user"],"limits":["7/h"]}}`).wants(200, `"action":"reject"`, `"retry_after_ms":-1`)
	s.call("POST", "/v1/explain", `{"draft":{"rules":[{"id":"new","limits":["x"]}]}}`).wants(422, `"path":"draft.rules[0].limits[0]"`)
	s.call("POST", "/v1/explain?draft", `{"attributes":{}}`).wants(422, `"path":"draft"`)
	s.call("POST", "/v1/explain", `{"attributes":{}}`).wants(404)
}

func TestClientCountersAreListedAndReset(t *testing.T) {
	e := engineOf(t, explained)
	s := open(t, api.Config{Node: e})
	var v engine.Verdict
	who := rules.Attributes{attribute(t, "user"): "bob", attribute(t, "path"): "/search/x", attribute(t, "ip"): "192.0.2.9"}
	for range 2 {
		if err := e.Decide(t.Context(), who, &v); err != nil {
			t.Fatal(err)
		}
	}
	got := s.call("GET", "/v1/keys?user=bob", "").wants(200, `"id":"search"`, `"remaining":1`, `"reset_after_ms":`)
	for _, other := range []string{`"id":"all"`, `"id":"pair"`, `"id":"by-address"`} {
		if strings.Contains(got.body, other) {
			t.Errorf("a rule that does not count by what is known: got %s", got.body)
		}
	}
	s.call("GET", "/v1/keys?user=bob&header.x-part=7", "").wants(200, `"id":"search"`, `"id":"pair"`, `"remaining":9`)
	s.call("GET", "/v1/keys?ip=192.0.2.9", "").wants(200, `"id":"by-address"`, `"remaining":48`, `"id":"search"`)
	s.call("GET", "/v1/keys", "").wants(400)
	s.call("GET", "/v1/keys?colour=red", "").wants(422, `"path":"attributes.colour","value":"unknown attribute"`)

	s.call("POST", "/v1/keys:reset", `{"attributes":{"user":"bob"},"rule":"none"}`).wants(404)
	s.call("POST", "/v1/keys:reset", `{"attributes":{"user":"bob"}}`).wants(200, `"reset":["search"]`)
	s.call("GET", "/v1/keys?user=bob", "").wants(200, `"remaining":3`)
	s.call("POST", "/v1/keys:reset", `{"attributes":{"ip":"192.0.2.9"},"rule":"by-address"}`).wants(200, `"reset":["by-address"]`)
	s.call("GET", "/v1/keys?ip=192.0.2.9", "").wants(200, `"remaining":50`)
	s.call("POST", "/v1/keys:reset", `{}`).wants(400)
	open(t, api.Config{}).call("GET", "/v1/keys?user=bob", "").wants(404)
}
