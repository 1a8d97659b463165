package api_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/control/signature"
)

// A farNode is a node with its own engine that a rules service can query over the network.
type farNode struct {
	t        testing.TB
	id       string
	engine   *engine.Engine
	answerer *nodequery.Responder
	server   *httptest.Server
	asked    atomic.Int64
}

// newFarNode starts a node. It counts in the store, which others may share, or in its own memory, as rules say.
func newFarNode(t testing.TB, id, text string, store headgate.Limiter, shared bool) *farNode {
	t.Helper()
	n := &farNode{t: t, id: id}
	var err error
	if n.engine, err = engine.New(engine.Config{Store: store, Local: memory(t), Shared: shared, Rules: setOf(t, text)}); err != nil {
		t.Fatal(err)
	}
	who, err := identity.New(identity.Config{})
	if err != nil {
		t.Fatal(err)
	}
	n.answerer = nodequery.NewResponder(n.engine, "default", who, nil)
	n.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.asked.Add(1)
		n.answerer.ServeHTTP(w, r)
	}))
	t.Cleanup(n.server.Close)
	return n
}

// take takes n requests of bob.
func (n *farNode) take(times int) {
	n.t.Helper()
	var v engine.Verdict
	who := rules.Attributes{attribute(n.t, "user"): "bob"}
	for range times {
		if err := n.engine.Decide(n.t.Context(), who, &v); err != nil {
			n.t.Fatal(err)
		}
	}
}

// beat sends a heartbeat of the node to a service.
func (n *farNode) beat(s *service, counters string) {
	n.t.Helper()
	body := fmt.Sprintf(`{"version":"1","store":"ok","region":"eu","started":"2026-01-01T00:00:00Z","address":%q,"ask_key":%q,"counters":%q}`,
		n.server.URL, n.answerer.Key(), counters)
	s.call("PUT", "/v1/nodes/"+n.id, body).wants(200)
}

// left returns the counters in a response (rule, node or store, remaining units) and the states of nodes.
func left(a answer) (keys, nodes []string, wrong string) {
	var got struct {
		Keys []struct {
			ID, Node, Counters string
			Limits             []struct{ Remaining int }
		}
		Nodes []struct{ ID, State string }
		Error string
	}
	a.into(&got)
	for _, k := range got.Keys {
		keys = append(keys, fmt.Sprintf("%s %s%s %d", k.ID, k.Node, k.Counters, k.Limits[0].Remaining))
	}
	for _, n := range got.Nodes {
		nodes = append(nodes, n.ID+" "+n.State)
	}
	return keys, nodes, got.Error
}

func wantsLeft(t *testing.T, a answer, keys, nodes []string, wrong string) {
	t.Helper()
	gotKeys, gotNodes, gotWrong := left(a)
	if !slices.Equal(gotKeys, keys) || !slices.Equal(gotNodes, nodes) || (wrong == "") != (gotWrong == "") || !strings.Contains(gotWrong, wrong) {
		t.Errorf("got %q of %q, error %q\nwant %q of %q, error %q", gotKeys, gotNodes, gotWrong, keys, nodes, wrong)
	}
}

const perUserHour = "rules: [{ id: per-user, key: user, limits: 10/h }]"

func TestCountersInMemoryAreListedAndResetOnAllNodes(t *testing.T) {
	own := newFarNode(t, "here", perUserHour, memory(t), false)
	s := open(t, api.Config{Node: own.engine, NodeID: "here"})
	a, b := newFarNode(t, "a", perUserHour, memory(t), false), newFarNode(t, "b", perUserHour, memory(t), false)
	own.take(1)
	a.take(3)
	b.take(2)
	own.beat(s, "") // it is queried in this process anyway
	a.beat(s, "")
	b.beat(s, "")
	answered := []string{"a answered", "b answered", "here answered"}
	wantsLeft(t, s.call("GET", "/v1/keys?user=bob", "").wants(200, `"region":"eu"`), []string{"per-user a 7", "per-user b 8", "per-user here 9"}, answered, "")
	if got := own.asked.Load(); got != 0 {
		t.Errorf("the node in this process was asked by the network %d times", got)
	}
	s.call("POST", "/v1/keys:reset", `{"attributes":{"user":"bob"},"rule":"none"}`).wants(404, "none")
	wantsLeft(t, s.call("POST", "/v1/keys:reset", `{"attributes":{"user":"bob"}}`).wants(200, `"reset":["per-user"]`), nil, answered, "")
	wantsLeft(t, s.call("GET", "/v1/keys?user=bob", "").wants(200), []string{"per-user a 10", "per-user b 10", "per-user here 10"}, answered, "")

	// A node that does not respond is reported, and the others are listed.
	b.server.Close()
	failed := []string{"a answered", "b failed", "here answered"}
	keys := []string{"per-user a 10", "per-user here 10"}
	wantsLeft(t, s.call("GET", "/v1/keys?user=bob", "").wants(200), keys, failed, "node b: it refused the connection")
	wantsLeft(t, s.call("POST", "/v1/keys:reset", `{"attributes":{"user":"bob"}}`).wants(200, `"reset":["per-user"]`), nil, failed, "node b: it refused the connection")
	if list := s.call("GET", "/v1/nodes", "").wants(200, `"id":"a"`); strings.Contains(list.body, a.answerer.Key()) || strings.Contains(list.body, "ask_key") {
		t.Errorf("the list shows with what nodes are asked: %s", list.body)
	}
}

func TestOneNodeRespondsForASharedStore(t *testing.T) {
	const both = "rules: [{ id: alone, key: user, limits: 10/h, consistency: local }, { id: together, key: user, limits: 10/h }]"
	s := open(t, api.Config{})
	store := memory(t)
	list := []*farNode{newFarNode(t, "a", both, store, true), newFarNode(t, "b", both, store, true), newFarNode(t, "c", both, store, true)}
	for i, n := range list {
		n.take(i + 1)
		n.beat(s, "redis 1")
	}
	asked := func() (all int64) {
		for _, n := range list {
			all += n.asked.Swap(0)
		}
		return all
	}
	answered := []string{"a answered", "b answered", "c answered"}
	wantsLeft(t, s.call("GET", "/v1/keys?user=bob", "").wants(200), []string{"alone a 9", "alone b 8", "alone c 7", "together redis 1 4"}, answered, "")
	asked()
	wantsLeft(t, s.call("POST", "/v1/keys:reset", `{"attributes":{"user":"bob"},"rule":"together"}`).wants(200, `"reset":["together"]`), nil,
		[]string{"a shared", "b shared", "c answered"}, "")
	if got := asked(); got != 2 { // to read and to reset the counter
		t.Errorf("what all share was forgotten by asking %d times, want 2: who is forgotten twice gets more than the limit", got)
	}
	wantsLeft(t, s.call("GET", "/v1/keys?user=bob", "").wants(200), []string{"alone a 9", "alone b 8", "alone c 7", "together redis 1 10"}, answered, "")
	wantsLeft(t, s.call("POST", "/v1/keys:reset", `{"attributes":{"user":"bob"}}`).wants(200, `"reset":["alone","together"]`), nil, answered, "")
	wantsLeft(t, s.call("GET", "/v1/keys?user=bob", "").wants(200), []string{"alone a 10", "alone b 10", "alone c 10", "together redis 1 10"}, answered, "")

	// If the first node of a store does not respond, the next one is queried.
	list[2].server.Close()
	wantsLeft(t, s.call("GET", "/v1/keys?user=bob", "").wants(200), []string{"alone a 10", "alone b 10", "together redis 1 10"},
		[]string{"a answered", "b answered", "c failed"}, "node c:")
	list[0].server.Close()
	list[1].server.Close()
	s.call("GET", "/v1/keys?user=bob", "").wants(http.StatusBadGateway, "No node has responded", "node a:", "node b:", "node c:")
}

func TestSilentAndUnreachableNodesAreNotQueried(t *testing.T) {
	now := newClock()
	s := open(t, api.Config{Now: now.time})
	s.call("GET", "/v1/keys?user=bob", "").wants(404, "no node")
	a, gone := newFarNode(t, "a", perUserHour, memory(t), false), newFarNode(t, "gone", perUserHour, memory(t), false)
	now.add(-10 * time.Minute)
	gone.beat(s, "")
	now.add(10 * time.Minute)
	a.beat(s, "")
	s.call("PUT", "/v1/nodes/off", `{}`).wants(200)
	s.call("PUT", "/v1/nodes/secrets", `{"address":"http://169.254.169.254","ask_key":"0123456789abcdef"}`).wants(200)
	s.call("PUT", "/v1/nodes/path", `{"address":"http://127.0.0.1:1/admin?x=","ask_key":"0123456789abcdef"}`).wants(200)
	nodes := []string{"a answered", "gone silent", "off failed", "path failed", "secrets failed"}
	wantsLeft(t, s.call("GET", "/v1/keys?user=bob", "").wants(200, "last heartbeat at"), []string{"per-user a 10"}, nodes, "node secrets: its address is not allowed")
	if got := gone.asked.Load(); got != 0 {
		t.Errorf("a node that is gone was asked %d times", got)
	}
	s.call("PUT", "/v1/nodes/other?namespace=blog", `{}`).wants(200)
	s.call("GET", "/v1/keys?user=bob&namespace=blog", "").wants(http.StatusBadGateway, "cannot be queried")
}

// The holder of a node's token can register any address: nothing of the response there is returned.
func TestResponsesOfOtherServersAreNotShown(t *testing.T) {
	s := open(t, api.Config{})
	for name, serve := range map[string]http.HandlerFunc{
		"text": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hush")) },
		"json": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"node":"x","keys":[],"error":"hush"}`))
		},
		"status": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hush", http.StatusTeapot) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://hush.example/", http.StatusFound)
		},
	} {
		server := httptest.NewServer(serve)
		t.Cleanup(server.Close)
		s.call("PUT", "/v1/nodes/"+name, fmt.Sprintf(`{"address":%q,"ask_key":"0123456789abcdef"}`, server.URL)).wants(200)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // never accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	s.call("PUT", "/v1/nodes/hangs", fmt.Sprintf(`{"address":"http://%s","ask_key":"0123456789abcdef"}`, silent.Addr())).wants(200)
	got := s.call("GET", "/v1/keys?user=bob", "").wants(http.StatusBadGateway, "No node has responded: node hangs", "not from a node: 418", "node hangs: it did not respond in time")
	if strings.Contains(got.body, "hush") {
		t.Errorf("got %s, want nothing of what is there", got.body)
	}
}

func TestNodeRespondsOnceToEachSignedQuery(t *testing.T) {
	n := newFarNode(t, "a", perUserHour, memory(t), false)
	question := `{"node":"a","namespace":"default","attributes":{"user":"bob"},"reset":true,"once":"1"}`
	ask := func(body, signed string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", n.server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(signature.Header, signed)
		w := httptest.NewRecorder()
		n.answerer.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	key, now := []byte(n.answerer.Key()), time.Now()
	n.take(1)
	for _, tt := range []struct {
		what, body, signature string
		want                  int
		words                 string
	}{
		{"nothing", question, "", 401, "signature"},
		{"another key", question, signature.Sign([]byte("another key than its own"), []byte(question), now), 401, "signature"},
		{"another body", question + " ", signature.Sign(key, []byte(question), now), 401, "signature"},
		{"long ago", question, signature.Sign(key, []byte(question), now.Add(-time.Hour)), 401, "too long ago"},
		{"its own", question, signature.Sign(key, []byte(question), now), 200, `"reset":["per-user"]`},
		{"the same again", question, signature.Sign(key, []byte(question), now), 401, "before"},
		{"no JSON", "x", signature.Sign(key, []byte("x"), now), 400, "read"},
		{"too long", strings.Repeat(" ", 1<<20), "", 413, "longer"},
	} {
		if code, body := ask(tt.body, tt.signature); code != tt.want || !strings.Contains(body, tt.words) {
			t.Errorf("%s: got %d %s, want %d with %q", tt.what, code, body, tt.want, tt.words)
		}
	}
	other := strings.Replace(question, `"default"`, `"blog"`, 1)
	if code, body := ask(other, signature.Sign(key, []byte(other), now)); code != 404 {
		t.Errorf("another namespace: got %d %s, want 404", code, body)
	}
	colour := strings.Replace(question, `"user"`, `"colour"`, 1)
	if code, body := ask(colour, signature.Sign(key, []byte(colour), now)); code != 422 || !strings.Contains(body, "attributes") {
		t.Errorf("an attribute that there is not: got %d %s, want 422", code, body)
	}
	s := open(t, api.Config{Responder: n.answerer})
	s.as("", "POST", "/v1/hooks/keys", question).wants(401)
	open(t, api.Config{}).as("", "POST", "/v1/hooks/keys", question).wants(404)
}

func TestNodeAddressComesFromItsHeartbeat(t *testing.T) {
	s := open(t, api.Config{From: from("192.0.2.7")})
	for address, want := range map[string]string{
		"http://[::]:8084": "http://192.0.2.7:8084", "https://0.0.0.0:8443": "https://192.0.2.7:8443", "http://10.0.0.1:8084": "http://10.0.0.1:8084",
		"http://node.example:1": "http://node.example:1", "http://127.0.0.1:8084": "http://127.0.0.1:8084", "": "",
	} {
		s.call("PUT", "/v1/nodes/n", fmt.Sprintf(`{"address":%q,"ask_key":"0123456789abcdef"}`, address)).wants(200)
		got := s.call("GET", "/v1/nodes", "").wants(200)
		if !strings.Contains(got.body, `"address":"`+want+`"`) && want != "" {
			t.Errorf("%s: got %s, want %s", address, got.body, want)
		}
	}
	// The loopback address of another host is not that host here.
	s.call("PUT", "/v1/nodes/n", `{"address":"http://127.0.0.1:8084","ask_key":"0123456789abcdef"}`).wants(200)
	s.call("GET", "/v1/keys?user=bob", "").wants(http.StatusBadGateway, "on loopback of another host")
}
