package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/control/api"
	"github.com/headgate/headgate/server/control/token"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// trafficReport returns the JSON of a report about one second.
func trafficReport(t *testing.T, node string, now time.Time, requests, denied uint64) string {
	t.Helper()
	counts := traffic.Counts{Requests: requests, Denied: denied, Cost: requests}
	second := now.Unix() - 4
	data, err := json.Marshal(traffic.Report{
		Node: node, Started: 1, Minute: now.Unix() - now.Unix()%60,
		Seconds: []traffic.Second{{Unix: second, Rows: []traffic.Row{{Counts: counts}, {Rule: "search", Counts: counts}}}},
		Clients: []traffic.ClientCount{{
			Client: traffic.NewClient(map[string]string{"user": "noisy"}), Rule: "search", Requests: requests, Denied: denied,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// With more rules than the limit, callers select the order or the rules.
func TestTrafficOfManyRulesIsSelected(t *testing.T) {
	clock := newClock()
	s := open(t, api.Config{Now: clock.time})
	now := clock.time()
	second := traffic.Second{Unix: now.Unix() - 4, Rows: []traffic.Row{{Counts: traffic.Counts{Requests: 500, Denied: 9}}}}
	for i := range 120 {
		row := traffic.Row{Rule: fmt.Sprintf("r%03d", i), Counts: traffic.Counts{Requests: uint64(1000 - i)}}
		switch i {
		case 117:
			row.ShadowDenied = 4
		case 118:
			row.Denied = 2
		case 119:
			row.Denied = 7
		}
		second.Rows = append(second.Rows, row)
	}
	data, err := json.Marshal(traffic.Report{
		Node: "a", Started: 1, Minute: now.Unix() - now.Unix()%60, Seconds: []traffic.Second{second},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.call("POST", "/v1/traffic:report", string(data)).wants(200)
	many := "?rule=" + strings.Join(strings.Fields(strings.Repeat("r119 ", 1001)), "&rule=")
	for _, tt := range []struct{ query, want string }{
		{"", "r000 r001 r002 … 100 rules and 20 more, 500 requests"},
		{"?order=requests&limit=2", "r000 r001 … 2 rules and 118 more, 500 requests"},
		{"?order=denied", "r119 r118 r117 … 100 rules and 20 more, 500 requests"},
		{"?order=denied&limit=1&window=24h", "r119 … 1 rules and 119 more, 500 requests"},
		{"?rule=r119", "r119 … 1 rules and 0 more, 881 requests"},
		{"?rule=r119&rule=r003&rule=other", "r003 r119 … 2 rules and 0 more, 500 requests"},
		{"?rule=r119&rule=r003&order=denied&limit=1", "r119 … 1 rules and 1 more, 500 requests"},
	} {
		var got traffic.Series
		s.call("GET", "/v1/traffic"+tt.query, "").wants(200).into(&got)
		var sum uint64
		for _, n := range got.Total.Requests {
			sum += n
		}
		text := ""
		for _, r := range got.Rules[:min(len(got.Rules), 3)] {
			text += r.Rule + " "
		}
		if text += fmt.Sprintf("… %d rules and %d more, %d requests", len(got.Rules), got.MoreRules, sum); text != tt.want {
			t.Errorf("%s: got %s, want %s", tt.query, text, tt.want)
		}
	}
	s.call("GET", "/v1/traffic?order=cost", "").wants(400, "requests or denied")
	s.call("GET", "/v1/traffic?window=10m&window=1h", "").wants(400, "one value")
	s.call("GET", "/v1/traffic?rule=a&rule=%00", "").wants(400)
	s.call("GET", "/v1/traffic/clients?rule=a&rule=b", "").wants(400, "one value")
	s.call("GET", "/v1/traffic"+many, "").wants(400, "at most 1000 rules")
}

func TestTrafficOfAllNodesIsMerged(t *testing.T) {
	clock := newClock()
	s := open(t, api.Config{Now: clock.time})
	one, two := s.token("node-1", token.Node, "default"), s.token("node-2", token.Node, "default")
	now := clock.time()
	s.as(one, "POST", "/v1/traffic:report", trafficReport(t, "a", now, 20, 15)).wants(200, `{"erase":[]}`)
	s.as(one, "POST", "/v1/traffic:report", trafficReport(t, "a", now, 20, 15)).wants(200) // repeated
	s.as(two, "POST", "/v1/traffic:report", trafficReport(t, "b", now, 10, 1)).wants(200)
	viewer := s.token("viewer", token.Viewer, "default")
	got := s.as(viewer, "GET", "/v1/traffic/clients", "").wants(200, `{"window":"10m","order":"denied","clients":[`+
		`{"client":{"user":"noisy"},"rule":"search","requests":30,"allowed":14,"denied":16,"error":0,"hash":"#`)
	d := described()
	if wrong := d.misfit(decoded(t, got.body), d.follow(map[string]any{"$ref": "#/components/schemas/TrafficClients"}), "clients"); wrong != "" {
		t.Error(wrong)
	}
	got = s.as(viewer, "GET", "/v1/traffic?window=10s&rule=search", "").wants(200, `"step":"1s"`, `"rule":"search"`,
		`"requests":[0,0,0,0,0,0,0,0,30,0]`, `"allowed":[0,0,0,0,0,0,0,0,14,0]`, `"denied":[0,0,0,0,0,0,0,0,16,0]`)
	if wrong := d.misfit(decoded(t, got.body), d.follow(map[string]any{"$ref": "#/components/schemas/Traffic"}), "traffic"); wrong != "" {
		t.Error(wrong)
	}
	s.as(viewer, "GET", "/v1/traffic/clients?q=NOIS&order=requests", "").wants(200, `"order":"requests"`, `"user":"noisy"`)
	got = s.as(viewer, "GET", "/v1/traffic/clients?q=noisy&window=1m&series=true", "").wants(200, `"series":{"step":"1m"`, `,30],"denied":[`)
	if wrong := d.misfit(decoded(t, got.body), d.follow(map[string]any{"$ref": "#/components/schemas/TrafficClients"}), "clients"); wrong != "" {
		t.Error(wrong)
	}
	s.as(viewer, "GET", "/v1/traffic/clients?q=quiet", "").wants(200, `"clients":[]`)
	s.as(viewer, "GET", "/v1/traffic/clients?rule=other", "").wants(200, `"clients":[]`)
	s.call("GET", "/v1/traffic/clients?namespace=shop", "").wants(200, `"clients":[]`)
	for window, want := range map[string]string{"7d": "168h", "1d12h": "36h", "1.5h": "1h30m", "168h": "168h"} {
		s.as(viewer, "GET", "/v1/traffic?window="+window, "").wants(200, `"window":"`+want+`"`)
		s.as(viewer, "GET", "/v1/traffic/clients?window="+window, "").wants(200, `"window":"`+want+`"`)
	}
	s.as(viewer, "GET", "/v1/traffic?window=8d", "").wants(400, "10s to 7d")
	for _, query := range []string{"?window=1s", "?window=200h", "?window=x", "?limit=0", "?nodes=a", "?node=a&window=48h"} {
		s.as(viewer, "GET", "/v1/traffic"+query, "").wants(400)
	}
	s.as(viewer, "GET", "/v1/traffic/clients?order=x", "").wants(400, "denied or requests")
	s.as(viewer, "POST", "/v1/traffic:report", trafficReport(t, "c", now, 1, 0)).wants(403)
	s.as(one, "POST", "/v1/traffic:report", `{"node":"a b"}`).wants(422, "node")
	s.as(one, "POST", "/v1/traffic:report", `{"node":"a","clients":[{"client":3}]}`).wants(400)
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestLiveTrafficIsAStreamOfSeconds(t *testing.T) {
	clock := newClock()
	s := open(t, api.Config{Now: clock.time})
	now := clock.time()
	s.call("POST", "/v1/traffic:report", trafficReport(t, "a", now.Add(time.Second), 20, 15)).wants(200)
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/v1/traffic/live", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.admin)
	response, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("got %s, want an event stream", got)
	}
	lines := bufio.NewScanner(response.Body)
	for _, want := range []string{
		"event: traffic",
		fmt.Sprintf(`data: {"time":%q,"rules":[{"rule":"search","requests":20,"allowed":5,"denied":15,"delayed":0,`+
			`"shadow_denied":0,"degraded":0,"cost":20}],"total":{"requests":20,"allowed":5,"denied":15,"delayed":0,`+
			`"shadow_denied":0,"degraded":0,"cost":20}}`, now.Add(-3*time.Second).Truncate(time.Second).UTC().Format(time.RFC3339)),
	} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("got  %s\nwant %s", lines.Text(), want)
		}
	}
}

func TestErasedClientIsErasedOnNodes(t *testing.T) {
	var erased []string
	s := open(t, api.Config{TrafficErased: func(kept map[string]string) { erased = append(erased, kept["user"]) }})
	now := time.Now()
	s.call("POST", "/v1/traffic:report", trafficReport(t, "a", now, 20, 15)).wants(200)
	viewer := s.token("viewer", token.Viewer, "default")
	s.as(viewer, "POST", "/v1/traffic/clients:erase", `{"client":{"user":"noisy"}}`).wants(403)
	s.call("POST", "/v1/traffic/clients:erase", `{"client":{}}`).wants(422)
	s.call("POST", "/v1/traffic/clients:erase", `{"client":{"x":"noisy"}}`).wants(422)
	s.call("POST", "/v1/traffic/clients:erase", `{"client":{"user":"noisy"}}`).wants(200, `{"erased":1}`)
	s.call("GET", "/v1/traffic/clients", "").wants(200, `"clients":[]`)
	// The node learns of it with its next report, whose clients are ignored.
	s.call("POST", "/v1/traffic:report", trafficReport(t, "a", now, 21, 15)).wants(200, `"client":{"user":"noisy"}`)
	s.call("GET", "/v1/traffic/clients", "").wants(200, `"clients":[]`)
	if len(erased) != 1 || erased[0] != "noisy" {
		t.Errorf("the node in this process: got %q, want the client once", erased)
	}
	audit := s.eventOf(s.admin, "", "traffic.erase")
	if strings.Contains(audit.body, "noisy") {
		t.Errorf("the audit log names the client: %s", audit.body)
	}
}

// Erasing takes a secret in full, or as lists show it, and an address as it is counted.
func TestErasingTakesTheShownForms(t *testing.T) {
	secret := "sk_live_0123456789abcdef"
	namer := traffic.NewNamer(traffic.Clear, nil)
	var s *service
	for _, c := range []struct{ attribute, value, stored string }{
		{"api_key", secret, namer.Hidden(secret)},
		{"api_key", namer.Hidden(secret), namer.Hidden(secret)},
		{"api_key", namer.HashOf(secret), namer.Hidden(secret)},
		{"ip", "2001:db8::7", "2001:db8::/64"},
	} {
		data, err := json.Marshal(traffic.Report{Node: "a", Started: 1, Minute: time.Now().Unix() / 60 * 60, Clients: []traffic.ClientCount{{
			Client: traffic.NewClient(map[string]string{c.attribute: c.stored}), Rule: "search", Requests: 5,
		}}})
		if err != nil {
			t.Fatal(err)
		}
		s = open(t, api.Config{})
		s.call("POST", "/v1/traffic:report", string(data)).wants(200)
		s.call("GET", "/v1/traffic/clients?"+c.attribute+"="+url.QueryEscape(c.value), "").wants(200, `"requests":5`)
		body, err := json.Marshal(map[string]any{"client": map[string]string{c.attribute: c.value}})
		if err != nil {
			t.Fatal(err)
		}
		s.call("POST", "/v1/traffic/clients:erase", string(body)).wants(200, `{"erased":1}`)
	}
	// Erasing nothing is no change.
	before := s.call("GET", "/v1/revisions", "").wants(200).body
	s.call("POST", "/v1/traffic/clients:erase", `{"client":{"user":"nobody"}}`).wants(200, `{"erased":0}`)
	if after := s.call("GET", "/v1/revisions", "").wants(200).body; after != before {
		t.Errorf("after erasing nothing: got the revisions %s, want %s", after, before)
	}
}

func TestLastDecisionsOfAllNodesAreListed(t *testing.T) {
	secret := "sk_live_0123456789abcdef"
	hidden := traffic.NewNamer(traffic.Clear, nil).Kept("api_key", secret)
	var asked traffic.DecisionsQuery
	s := open(t, api.Config{Node: engineOf(t, `{"rules":[]}`), NodeID: "a", NodeTraffic: func(query json.RawMessage) (json.RawMessage, error) {
		var q traffic.NodeQuery
		if err := json.Unmarshal(query, &q); err != nil {
			return nil, err
		}
		asked = *q.Decisions
		early := time.Unix(1_800_000_000, 0).UTC()
		one := traffic.Decision{Time: early, Client: `{"user":"noisy"}`, Rule: "search", Verdict: "allow", Limit: "10/s", Remaining: 1, Cost: 1}
		two := one
		two.Time, two.Verdict, two.RetryAfterMS, two.OneIn = early.Add(time.Second), "reject", 100, 4
		return json.Marshal(traffic.NodeResponse{Decisions: []traffic.Decision{one, two}})
	}})
	viewer := s.token("viewer", token.Viewer, "default")
	got := s.as(viewer, "GET", "/v1/traffic/decisions?user=noisy&limit=5", "").wants(200, `"verdict":"reject","limit":"10/s","remaining":1,"retry_after_ms":100,"cost":1,"one_in":4},`)
	d := described()
	if wrong := d.misfit(decoded(t, got.body), d.follow(map[string]any{"$ref": "#/components/schemas/TrafficDecisions"}), "decisions"); wrong != "" {
		t.Error(wrong)
	}
	if asked.Client["user"] != "noisy" || asked.Limit != 5 || asked.Denied {
		t.Errorf("the node was asked %+v", asked)
	}
	// A secret is hashed before it leaves; its hash stands for itself.
	for _, value := range []string{secret, hidden} {
		s.as(viewer, "GET", "/v1/traffic/decisions?denied&rule=search&api_key="+url.QueryEscape(value), "").wants(200)
		if asked.Client["api_key"] != hidden || !asked.Denied || asked.Rule != "search" {
			t.Errorf("%s: the node was asked %+v, want %s", value, asked, hidden)
		}
	}
	s.as(viewer, "GET", "/v1/traffic/decisions?limit=501", "").wants(400)
	s.as(viewer, "GET", "/v1/traffic/decisions?usr=noisy", "").wants(400, "neither a parameter")
	// The same for the counts of a client.
	s.call("POST", "/v1/traffic:report", trafficReport(t, "a", time.Now(), 20, 15)).wants(200)
	s.as(viewer, "GET", "/v1/traffic/clients?user=noisy", "").wants(200, `"user":"noisy"`)
	s.as(viewer, "GET", "/v1/traffic/clients?user=nois", "").wants(200, `"clients":[]`)
	s.as(viewer, "GET", "/v1/traffic/clients?usr=noisy", "").wants(400, "neither a parameter")
}

// Clients are found by a whole secret of every kind, both with the attribute and without.
func TestClientsAreFoundByWholeSecrets(t *testing.T) {
	id, err := identity.New(identity.Config{})
	if err != nil {
		t.Fatal(err)
	}
	namer := traffic.NewNamer(traffic.Clear, nil)
	for attribute, secret := range map[string]string{
		"api_key": "sk_live_0123456789abcdef", "bearer": "tok3n-0123456789-abcdef", "cookie.session": "s3ss10n-0123456789",
		"header.x-token": "t0ken-0123456789-abc", "header.authorization": "Basic YWxpY2U6c2VjcmV0", "query.key": "k3y-0123456789-abcde",
		"header.cookie": "a=b; c=d", "ip": "2001:db8::7", "user": strings.Repeat("u", 90),
	} {
		client := new(identity.Attributes)
		if err := id.ReadValues(identity.Values{Attributes: map[string]string{attribute: secret}}, client); err != nil {
			t.Fatal(err)
		}
		a, err := headgate.ParseAttribute(attribute)
		if err != nil {
			t.Fatal(err)
		}
		counted, _ := client.Get(a)
		stored := namer.Kept(attribute, counted)
		data, err := json.Marshal(traffic.Report{Node: "a", Started: 1, Minute: time.Now().Unix() / 60 * 60, Clients: []traffic.ClientCount{{
			Client: traffic.NewClient(map[string]string{attribute: stored}), Rule: "search", Requests: 5,
		}}})
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, api.Config{Identifier: id})
		s.call("POST", "/v1/traffic:report", string(data)).wants(200)
		for _, name := range []string{attribute, "q"} {
			s.call("GET", "/v1/traffic/clients?"+name+"="+url.QueryEscape(secret), "").wants(200, `"requests":5`)
			other := url.QueryEscape(secret[:len(secret)-1] + "_")
			if got := s.call("GET", "/v1/traffic/clients?"+name+"="+other, ""); strings.Contains(got.body, `"requests":5`) {
				t.Errorf("%s=%s: got %s, want no client", name, other, got.body)
			}
		}
	}
}

func TestTrafficOfOneNodeComesFromTheNode(t *testing.T) {
	clock := newClock()
	s := open(t, api.Config{
		Now: clock.time, Node: engineOf(t, `{"rules":[]}`), NodeID: "a", NodeTraffic: sampleSource(t, clock.time()),
	})
	got := s.call("GET", "/v1/traffic?node=a&window=10s", "").wants(200, `"requests":[0,0,0,0,0,0,0,0,7,0]`, `"state":"answered"`)
	d := described()
	if wrong := d.misfit(decoded(t, got.body), d.follow(map[string]any{"$ref": "#/components/schemas/Traffic"}), "traffic"); wrong != "" {
		t.Error(wrong)
	}
	s.call("GET", "/v1/traffic?node=b", "").wants(404)
	s.call("GET", "/v1/traffic?region=eu", "").wants(404)
}
