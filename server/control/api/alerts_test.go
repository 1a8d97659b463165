package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api"
)

// events returns the events that were accepted, as text.
func (k *taker) events() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []string
	for _, e := range k.taken {
		var alert struct{ ID, State string }
		if e.Alert != nil {
			if err := json.Unmarshal(e.Alert, &alert); err != nil {
				return err.Error()
			}
		}
		list = append(list, strings.TrimSpace(e.Event+" "+alert.ID+" "+alert.State))
	}
	return strings.Join(list, ", ")
}

// awaitEvents waits until exactly these events were accepted.
func (k *taker) awaitEvents(t *testing.T, want string) {
	t.Helper()
	await.NoError(t, "the events of a webhook", func() error {
		if got := k.events(); got != want {
			return fmt.Errorf("got %s, want %s", got, want)
		}
		return nil
	})
}

func TestWebhooksAreNotifiedOfAlerts(t *testing.T) {
	now := newClock()
	db := openDB(t)
	s := open(t, api.Config{DB: db, Now: now.time, Hooks: loopback})
	receiver, other := newTaker(t), newTaker(t)
	hook := fmt.Sprintf(`{"id":"pager","url":%q,"secret":%q,"events":["alert"]}`, receiver.URL, hookSecret)
	s.call("POST", "/v1/webhooks", hook).wants(201, `"events":["alert"]`)
	s.call("POST", "/v1/webhooks", fmt.Sprintf(`{"id":"plain","url":%q,"secret":%q}`, other.URL, hookSecret)).wants(201)
	s.call("POST", "/v1/webhooks", `{"url":"https://example.com","events":["alerts"]}`).wants(422, `"path":"events"`)
	// beat sends heartbeats of two nodes, and evaluates the alerts.
	beat := func(server *api.Server, shards ...string) {
		t.Helper()
		for _, id := range []string{"n1", "n2"} {
			n := control.Node{ID: id, Namespace: "default", Store: "ok", Health: &control.HealthStats{OpenShards: shards}}
			if _, err := server.Heartbeat(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		if err := server.EvaluateAlerts(t.Context()); err != nil {
			t.Fatal(err)
		}
		now.add(10 * time.Second)
	}
	beat(s.server)
	s.call("GET", "/v1/alerts", "").wants(200, `{"firing":0,"alerts":[]}`)
	for range 6 {
		beat(s.server, "redis:1")
	}
	s.call("GET", "/v1/alerts", "").wants(200, `"firing":1`, `"id":"breaker_open/redis:1"`, `"nodes":["n1","n2"]`,
		`"state":"firing"`, `"severity":"critical"`, `"runbook":"docs/runbooks/breaker-open.md"`)
	s.call("GET", "/v1/alerts?state=resolved", "").wants(200, `{"firing":1,"alerts":[]}`)
	s.call("GET", "/v1/alerts?state=on", "").wants(400)
	receiver.awaitEvents(t, "alert.fired breaker_open/redis:1 firing")

	// Another process with the same database continues, and does not fire it again. It would send an event again whose
	// delivery was not stored yet.
	await.NoError(t, "the stored delivery", func() error {
		if got := s.call("GET", "/v1/webhooks/pager/deliveries", "").wants(200); !strings.Contains(got.body, `"state":"delivered"`) {
			return fmt.Errorf("got %s, want a delivered event", got.body)
		}
		return nil
	})
	if err := s.server.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, api.Config{DB: db, Now: now.time, Hooks: loopback})
	again.admin = s.admin
	for range 3 {
		beat(again.server, "redis:1")
	}
	for range 6 {
		beat(again.server)
	}
	const all = "alert.fired breaker_open/redis:1 firing, alert.resolved breaker_open/redis:1 resolved"
	receiver.awaitEvents(t, all)
	again.call("GET", "/v1/alerts", "").wants(200, `"firing":0`, `"state":"resolved"`, `"resolved":"`)
	got := again.call("GET", "/v1/webhooks/pager/deliveries", "").wants(200, `"event":"alert.fired"`, `"event":"alert.resolved"`)
	if n := strings.Count(got.body, `"state":"delivered"`); n < 1 {
		t.Errorf("got %s, want delivered ones", got.body)
	}
	again.call("POST", "/v1/rules", `{"id":"search","limits":["10/s"]}`).wants(201)
	await.NoError(t, "the revision", func() error {
		if got := other.events(); !strings.HasSuffix(got, "revision") || strings.Contains(got, "alert") {
			return fmt.Errorf("got %s, want revisions only", got)
		}
		return nil
	})
	if got := receiver.events(); got != all {
		t.Errorf("got %s, want alerts only", got)
	}
}

// Of two processes with one database, one evaluates the alerts.
func TestOneProcessEvaluatesAlerts(t *testing.T) {
	now := newClock()
	db := openDB(t)
	receiver := newTaker(t)
	a, b := open(t, api.Config{DB: db, Now: now.time, Hooks: loopback}), open(t, api.Config{DB: db, Now: now.time, Hooks: loopback})
	a.call("POST", "/v1/webhooks",
		fmt.Sprintf(`{"id":"pager","url":%q,"secret":%q,"events":["alert"]}`, receiver.URL, hookSecret)).wants(201)
	node := control.Node{ID: "n1", Namespace: "default", Store: "ok"}
	if _, err := a.server.Heartbeat(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for range 12 { // it sends no more
		now.add(10 * time.Second)
		for _, server := range []*api.Server{a.server, b.server} {
			if err := server.EvaluateAlerts(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.call("GET", "/v1/alerts", "").wants(200, `"firing":1`, `"id":"node_silent/n1"`)
	receiver.awaitEvents(t, "alert.fired node_silent/n1 firing")
}

// A service that denies many requests from the beginning, as the demo does, has no denial spike when it is new, nor after
// hours without requests.
func TestDenialSpikeNeedsTrafficToCompareWith(t *testing.T) {
	now := newClock()
	s := open(t, api.Config{Now: now.time})
	serve := func(minutes int, denied uint64) {
		t.Helper()
		for range 3 * minutes {
			if _, err := s.server.Heartbeat(t.Context(), control.Node{ID: "n1", Namespace: "default", Store: "ok"}); err != nil {
				t.Fatal(err)
			}
			s.call("POST", "/v1/traffic:report", trafficReport(t, "n2", now.time(), 100, denied)).wants(200)
			if err := s.server.EvaluateAlerts(t.Context()); err != nil {
				t.Fatal(err)
			}
			now.add(20 * time.Second)
		}
	}
	serve(20, 40)
	s.call("GET", "/v1/alerts", "").wants(200, `{"firing":0,"alerts":[]}`)
	now.add(3 * time.Hour)
	serve(12, 40)
	s.call("GET", "/v1/alerts", "").wants(200, `{"firing":0,"alerts":[]}`)
	serve(60, 0)
	serve(8, 90)
	s.call("GET", "/v1/alerts", "").wants(200, `"firing":1`, `"id":"denial_spike/all requests"`)
}

// Nodes on several hosts may each have a store at the loopback address.
func TestStoresTellServersOfHostsApart(t *testing.T) {
	now := newClock()
	s := open(t, api.Config{Now: now.time})
	for id, address := range map[string]string{"n1": "http://10.0.0.1:8084", "n2": "http://10.0.0.1:8085", "n3": "http://10.0.0.3:8084"} {
		server := control.ServerStats{
			Shard: "127.0.0.1:6379", Server: "127.0.0.1:6379", Role: control.RolePrimary, Up: id != "n3", Checked: now.time().UTC(),
		}
		n := control.Node{
			ID: id, Namespace: "default", Address: address, Store: "ok",
			Health: &control.HealthStats{Servers: []control.ServerStats{server}},
		}
		if _, err := s.server.Heartbeat(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	got := s.call("GET", "/v1/stores", "").wants(200, `"nodes":["n1","n2"],"node_count":2`, `"nodes":["n3"],"node_count":1`)
	if n := strings.Count(got.body, `"up":false`); n != 1 {
		t.Errorf("got %d servers that are down, want that of n3: %s", n, got.body)
	}
}

// A list of alerts never contradicts the heartbeats: before an alert fires and after its condition has ended.
func TestAlertsFollowTheHeartbeats(t *testing.T) {
	now := newClock()
	s := open(t, api.Config{Now: now.time})
	beat := func(rules ...string) {
		t.Helper()
		h := &control.HealthStats{UnlimitedPerSecond: 40}
		for _, id := range rules {
			h.FailingOpen = append(h.FailingOpen, control.RuleRate{Rule: id, PerSecond: 40})
		}
		if _, err := s.server.Heartbeat(t.Context(), control.Node{ID: "n1", Namespace: "default", Store: "ok", Health: h}); err != nil {
			t.Fatal(err)
		}
	}
	beat("a", "b")
	s.call("GET", "/v1/alerts", "").wants(200, `"firing":0`, `"state":"pending"`, `"id":"failing_open/store"`, `"rules":["a","b"]`,
		`"summary":"About 40 requests/s pass without a limit under the rules a and b"`)
	for range 6 {
		if err := s.server.EvaluateAlerts(t.Context()); err != nil {
			t.Fatal(err)
		}
		now.add(10 * time.Second)
		beat("a", "b")
	}
	got := s.call("GET", "/v1/alerts", "").wants(200, `"firing":1`, `"state":"firing"`)
	if n := strings.Count(got.body, `"condition"`); n != 1 {
		t.Errorf("got %d alerts, want one for both rules: %s", n, got.body)
	}
	now.add(time.Second)
	beat()
	s.call("GET", "/v1/alerts", "").wants(200, `"firing":0`, `"state":"resolving"`,
		`"summary":"About 40 requests/s passed without a limit under the rules a and b"`)
	for range 6 {
		now.add(10 * time.Second)
		if err := s.server.EvaluateAlerts(t.Context()); err != nil {
			t.Fatal(err)
		}
		beat()
	}
	s.call("GET", "/v1/alerts", "").wants(200, `"state":"resolved"`, `requests/s passed without a limit`)
}

// The figures of the console's banner are in the list of alerts, so that they are those of the alert.
func TestAlertsHaveTheFallbacks(t *testing.T) {
	now := newClock()
	s := open(t, api.Config{Now: now.time})
	h := &control.HealthStats{
		UnlimitedPerSecond: 90, FailingOpenRules: 30, UnlimitedSince: now.time().UTC(), OtherFallbacks: []string{"strict"},
	}
	for i := range 30 {
		h.FailingOpen = append(h.FailingOpen, control.RuleRate{Rule: fmt.Sprintf("r%02d", i), PerSecond: 3})
	}
	h.Clamp()
	for _, n := range []control.Node{{ID: "n1", Health: h}, {ID: "n2"}} {
		n.Namespace, n.Store = "default", "ok"
		if _, err := s.server.Heartbeat(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	s.call("GET", "/v1/alerts?state=firing", "").wants(200, `"alerts":[],"fallbacks":[{"namespace":"default"`,
		`"unlimited_per_second":90,"open_rules":["r00","r01",`, `"open_rule_count":30,"other_rules":["strict"]`,
		`"nodes":["n1"],"node_count":1,"live_nodes":2,"since":"`)
	s.call("GET", "/v1/alerts", "").wants(200, `"About 90 requests/s pass without a limit under the rules r00, r01, r02 and 27 more"`)
}

func TestStoresListTheServersOfAllNodes(t *testing.T) {
	now := newClock()
	s := open(t, api.Config{Now: now.time})
	server := func(addr string, up bool, ops int64) control.ServerStats {
		return control.ServerStats{
			Shard: addr, Server: addr, Role: control.RolePrimary, Up: up, Checked: now.time().UTC(), OpsPerSecond: ops,
		}
	}
	for id, h := range map[string]*control.HealthStats{
		"n1": {Servers: []control.ServerStats{server("r1", true, 9000), server("r2", true, 10), server("r3", true, 20)}},
		"n2": {OpenShards: []string{"r4"}, Servers: []control.ServerStats{server("r4", false, 0)}},
	} {
		if _, err := s.server.Heartbeat(t.Context(), control.Node{ID: id, Namespace: "default", Store: "ok", Health: h}); err != nil {
			t.Fatal(err)
		}
	}
	got := s.call("GET", "/v1/stores", "").wants(200, `"server":"r1"`, `"hot":true`, `"open_on":["n2"]`, `"up":false`,
		`"nodes":["n1"],"node_count":1`, `"nodes":["n2"],"node_count":1,"open_on"`)
	if n := strings.Count(got.body, `"hot":true`); n != 1 {
		t.Errorf("got %d hot servers, want one: %s", n, got.body)
	}
	if got := s.call("GET", "/v1/nodes", "").wants(200, `"health"`); strings.Contains(got.body, `"servers"`) {
		t.Errorf("got %s, want the servers in /v1/stores only", got.body)
	}
	now.add(2 * time.Minute)
	s.call("GET", "/v1/stores", "").wants(200, `{"servers":[]}`)
	s.call("PUT", "/v1/nodes/n1", `{"health":{"servers":[{"role":"chief"}]}}`).wants(422, `"health.servers[0].role"`)
	s.call("PUT", "/v1/nodes/n1", `{"health":{"store_p99_ms":-5}}`).wants(422, `"health.store_p99_ms"`)
}
