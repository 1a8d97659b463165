package control_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/rules/registry"
	"github.com/headgate/headgate/server/control"
)

const everything = `
rules:
  - id: search-per-user
    description: "<b> & 'quotes' \"double\" 日本"
    priority: 5
    enabled: false
    when: { path: /search/**, host: api.example.com, method: [GET, HEAD], any: [{ user: z, ip: 10.0.0.0/8 }, { api_key: k }], not: { header.x-plan: gold, cookie.a: b } }
    key: [user]
    limits: [10/s burst 20, { name: hourly, limit: 1000/h sliding-window }]
    cost: { response_header: X-Tokens-Used, estimate: 1 }
    overrides: [{ when: { user: acme, host: x.example.com }, limits: [100/s] }, { when: { ip: 10.0.0.0/8 }, unlimited: true }]
    penalty: { after: 100 denials in 1m, limits: [1/s], for: 10m }
  - { id: blocked, when: { ip: 192.0.2.0/24 }, block: true }
clients:
  - id: acme
    attributes: { user: [acme, acme-2], plan: gold, api_key: k1, beta: true }
    limits: [500/s]
    rules: [{ id: search-per-user, limits: [700/s] }]
  - { id: plain }
  - { id: planned, attributes: { tier: 2, plan: "a\"b" }, limits: [5/s] }
`

func TestBodiesRoundTrip(t *testing.T) {
	doc, err := file.Parse("rules.yaml", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range doc.Rules {
		body := control.RuleBody(r)
		again, err := control.ParseRule(body)
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if twice := control.RuleBody(again); !bytes.Equal(twice, body) || bytes.ContainsAny(body, "\n") {
			t.Errorf("got %s, want %s", twice, body)
		}
		if again.ID != r.ID || !reflect.DeepEqual(again.Limits, r.Limits) || len(again.When.Tests) != len(r.When.Tests) {
			t.Errorf("got %+v, want %+v", again, r)
		}
	}
	for _, c := range doc.Clients {
		body := control.ClientBody(c)
		again, err := control.ParseClient(body)
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		if twice := control.ClientBody(again); !bytes.Equal(twice, body) {
			t.Errorf("got %s, want %s", twice, body)
		}
		if again.ID != c.ID || len(again.Properties) != len(c.Properties) || !reflect.DeepEqual(again.Rules, c.Rules) || !reflect.DeepEqual(again.Limits, c.Limits) {
			t.Errorf("got %+v, want %+v", again, c)
		}
	}
}

func TestEqualObjectsHaveEqualBodies(t *testing.T) {
	one, err := control.ParseRule([]byte(`{"limits": ["10/s"], "id": "a", "when": {"path": "/x", "host": "a.example.com", "any": [{"user": "u", "ip": "10.0.0.1"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	other, err := file.ReadRule("rule.yaml", []byte("id: a\nwhen: { host: a.example.com, any: [{ ip: 10.0.0.1, user: u }], path: /x }\nlimits: 10/s\n"))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := control.RuleBody(one), control.RuleBody(other); !bytes.Equal(a, b) {
		t.Errorf("got %s and %s, want the same", a, b)
	}
}

// paths returns the paths of the problems of an error.
func paths(t *testing.T, err error) string {
	t.Helper()
	var e *source.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a *source.Error", err)
	}
	var list []string
	for _, p := range e.Problems {
		list = append(list, p.Path)
	}
	return strings.Join(list, " ")
}

func TestErrorsListAllPaths(t *testing.T) {
	for body, want := range map[string]string{
		`{"id":"a","limits":["ten/s"],"on_limits":"drop","when":{"path":"x"}}`: "limits[0] on_limits when.path[0]",
		`{"id":"a b","limits":["10/s"]}`:                                       "id",
		`{"id":"a"}`:                                                           "",
		`[1]`:                                                                  "",
		`{`:                                                                    "",
	} {
		if _, err := control.ParseRule([]byte(body)); paths(t, err) != want {
			t.Errorf("%s: got %q, want %q: %v", body, paths(t, err), want, err)
		}
	}
	for body, want := range map[string]string{
		`{"id":"a","limits":["ten/s"],"colour":"red"}`:    "limits[0] colour",
		`{"id":"a","attributes":{"Colour":"red"}}`:        "attributes.Colour",
		`{"id":"a","attributes":{"usr":"red"}}`:           "attributes.usr",
		`{"id":"a","attributes":{"plan":["red"]}}`:        "attributes.plan",
		`{"id":"a","attributes":{"plan":"a","plan":"b"}}`: "",
	} {
		if _, err := control.ParseClient([]byte(body)); paths(t, err) != want {
			t.Errorf("%s: got %q, want %q: %v", body, paths(t, err), want, err)
		}
	}
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	for body, want := range map[string]string{
		`{}`: "id client limits expires",
		`{"id":"a","client":{"user":"acme"},"limits":["10/s"]}`:                                             "expires",
		`{"id":"a","client":{"user":"acme"},"limits":["10/s"],"for":"1h","expires":"2030-02-01T00:00:00Z"}`: "expires",
		`{"id":"a","client":{"user":"acme"},"limits":["10/s"],"expires":"2030-01-01T00:00:00Z"}`:            "expires",
		`{"id":"a","client":{"user":"acme"},"limits":["10/s"],"for":"500d"}`:                                "for",
		`{"id":"a","client":{"user":"acme"},"limits":["10/s"],"expires":"tomorrow"}`:                        "expires",
		`{"id":"a","client":{"user":"acme"},"limits":["10/s"],"for":"soon"}`:                                "for",
		`{"id":"a","client":{"user":"acme"},"limits":["10/s"],"block":true,"for":"1h"}`:                     "limits",
		`{"id":"a","client":{"user":"acme"},"limits":["ten/s"],"for":"1h"}`:                                 "limits[0]",
		`{"id":"a/b","client":{"user":"acme"},"block":true,"for":"1h"}`:                                     "id",
		`{"id":"a","client":{"user":""},"block":true,"for":"1h"}`:                                           "client.user",
		`{"id":"a","client":{"colour":"red","user":"a*"},"block":true,"for":"1h"}`:                          "client.colour client.user",
		`{"id":"a","client":{"user":["a","b"]},"block":true,"for":"1h"}`:                                    "client.user",
		`{"id":"a","client":{"ip":"10.0.0.0/8x"},"unlimited":true,"for":"1h"}`:                              "client.ip",
		`{"id":"a","client":"acme","unlimited":true,"for":"1h"}`:                                            "client",
		`{"id":"a","client":{"user":"acme"},"rule":"a b","limits":["10/s"],"for":"1h","colour":1}`:          "rule colour",
	} {
		if _, err := control.ParseOverride("body.json", []byte(body), now); err == nil || paths(t, err) != want {
			t.Errorf("%s: got %q, want %q: %v", body, paths(t, err), want, err)
		}
	}
}

func TestOverridesRoundTrip(t *testing.T) {
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	o, err := control.ParseOverride("o.yaml", []byte("id: a\nclient: { user: acme }\nlimits: 500/1s\nfor: 72h\nnote: <until Friday>\n"), now)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"a","client":{"user":"acme"},"limits":["500/s"],"expires":"2030-02-03T12:00:00Z","note":"<until Friday>"}`
	if got := string(control.OverrideBody(o)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	again, err := control.ParseOverride("body.json", []byte(want), time.Time{})
	if err != nil || !reflect.DeepEqual(again, o) {
		t.Errorf("got %+v, %v; want %+v", again, err, o)
	}
	if _, err := control.ParseOverride("body.json", []byte(want), now.AddDate(1, 0, 0)); err == nil {
		t.Error("one that has ended was taken as a new one")
	}
}

func TestOverridePrecedesAllButBlocks(t *testing.T) {
	for _, tt := range []struct{ override, client, want string }{
		{`"limits":["500/s"]`, `{"id":"c","limits":["1/s"],"rules":[{"id":"r","limits":["2/s"]},{"id":"b","block":true}]}`, `{"id":"c","limits":["500/s"],"rules":[{"id":"b","block":true}]}`},
		{`"limits":["500/s"]`, `{"id":"c","block":true}`, `{"id":"c","block":true}`},
		{`"unlimited":true`, `{"id":"c","limits":["1/s"]}`, `{"id":"c","unlimited":true}`},
		{`"block":true`, `{"id":"c","unlimited":true,"rules":[{"id":"r","limits":["2/s"]}]}`, `{"id":"c","block":true}`},
		{`"rule":"r","limits":["500/s"]`, `{"id":"c","limits":["1/s"]}`, `{"id":"c","limits":["1/s"],"rules":[{"id":"r","limits":["500/s"]}]}`},
		{`"rule":"r","limits":["500/s"]`, `{"id":"c","rules":[{"id":"r","limits":["2/s"]},{"id":"s","limits":["3/s"]}]}`, `{"id":"c","rules":[{"id":"r","limits":["500/s"]},{"id":"s","limits":["3/s"]}]}`},
		{`"rule":"r","limits":["500/s"]`, `{"id":"c","rules":[{"id":"r","block":true}]}`, `{"id":"c","rules":[{"id":"r","block":true}]}`},
		{`"rule":"r","limits":["500/s"]`, `{"id":"c","block":true}`, `{"id":"c","block":true}`},
		{`"rule":"r","block":true`, `{"id":"c","rules":[{"id":"r","unlimited":true}]}`, `{"id":"c","rules":[{"id":"r","block":true}]}`},
	} {
		o, err := control.ParseOverride("body.json", fmt.Appendf(nil, `{"id":"o","client":{"user":"c"},%s,"expires":"2030-01-01T00:00:00Z"}`, tt.override), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := control.ParseClient([]byte(tt.client))
		if err != nil {
			t.Fatal(err)
		}
		before := string(control.ClientBody(c))
		got, err := o.ApplyTo(c)
		if err != nil || string(control.ClientBody(got)) != tt.want {
			t.Errorf("%s over %s: got %s, %v; want %s", tt.override, tt.client, control.ClientBody(got), err, tt.want)
		}
		if after := string(control.ClientBody(c)); after != before {
			t.Errorf("the client itself was changed from %s to %s", before, after)
		}
	}
}

func TestOverrideRegistersATemporaryClient(t *testing.T) {
	o := control.Override{ID: "o", Client: map[string]string{"user": "acme", "api_key": "k"}, Limits: []string{"500/s"}}
	c, err := o.AsClient()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(control.ClientBody(c)), `{"id":"o","attributes":{"api_key":"k","user":"acme"},"limits":["500/s"]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := registry.New(c); err != nil {
		t.Errorf("it cannot be registered: %v", err)
	}
	o.Limits = []string{"ten/s"}
	if _, err := o.AsClient(); !errors.Is(err, rules.ErrInvalid) {
		t.Errorf("got %v, want %v", err, rules.ErrInvalid)
	}
}

func FuzzParseOverride(f *testing.F) {
	f.Add([]byte(`{"id":"a","client":{"user":"acme"},"limits":["500/s"],"expires":"2030-02-03T12:00:00Z"}`))
	f.Add([]byte(`{"id":"a","client":{"ip":"10.0.0.1"},"block":true,"for":"72h"}`))
	now := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := control.ParseOverride("body.json", body, now)
		if err != nil {
			return
		}
		again, err := control.ParseOverride("body.json", control.OverrideBody(o), now)
		if err != nil || !bytes.Equal(control.OverrideBody(again), control.OverrideBody(o)) {
			t.Errorf("%s: got %+v, %v; want %+v", body, again, err, o)
		}
		if _, err := o.AsClient(); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	})
}

// plainest are clients in the simple form, and some that are nearly in it.
var plainest = []string{
	`{"id":"acme"}`, `{"id":"acme","limits":["100/s"]}`, `{"id":"a","attributes":{"user":"a","api_key":["k1","k2"]},"limits":["100/s","5/m sliding-window"]}`,
	`{"id":"a","unlimited":true}`, `{"id":"a","block":true}`, `{"id":"a","attributes":{"header.x-plan":"gold"}}`, `{"id":"","attributes":{"user":""}}`,
	`{"id":"a","limits":[]}`, `{"id":"a","attributes":{}}`, `{"id":"a","attributes":{"user":[]}}`, `{"id":"a","attributes":{"user":"a","user":"b"}}`,
	`{"id":"a","attributes":{"header.X":"a","header.x":"b"}}`, `{"id":"a","limits":["ten/s"]}`, `{"id":"a","unlimited":false}`, `{"id":"a","block":true,"block":true}`,
	`{"id":"\u0061"}`, `{"id":"日本"}`, `{"id":"a"} `, `{"id":"a"}}`, `{"id":"a",}`, `{"id":"a","limits":["1/s",]}`, `{"id":"a","limits":["1/s"`, `{"id":"a","colour":"red"}`, `{"id":12}`,
	`{"limits":["1/s"],"id":"a"}`, `{"id":"a","limits":[{"name":"n","limit":"1/s"}]}`, `{"id":"a","attributes":{"colour":"red"}}`, `{"id":"a","attributes":{"user":1}}`,
}

func FuzzSimpleClientParserMatchesGeneralParser(f *testing.F) {
	for _, body := range plainest {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, gotErr := control.ParseClient(body)
		want, wantErr := file.ReadClient("body.json", body)
		if !reflect.DeepEqual(got, want) || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v, %v", body, got, gotErr, want, wantErr)
		}
	})
}

func TestSimpleClientIsParsedWithFewAllocations(t *testing.T) {
	body := []byte(`{"id":"client-000123","attributes":{"user":"client-000123"},"limits":["100/s"]}`)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := control.ParseClient(body); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 10 {
		t.Errorf("got %v allocations, want at most 10: the fast way was not taken", allocs)
	}
}

func BenchmarkParseClient(b *testing.B) {
	body := []byte(`{"id":"client-000123","attributes":{"user":"client-000123"},"limits":["100/s"]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := control.ParseClient(body); err != nil {
			b.Fatal(err)
		}
	}
}
