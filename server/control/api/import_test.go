package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/control/api"
)

var ndjson = []string{"Content-Type", "application/x-ndjson"}

func TestClientsAreImportedLineByLine(t *testing.T) {
	s := open(t, api.Config{})
	s.server.SetImportChunk(100)
	s.call("POST", "/v1/rules", searchRule).wants(201)
	var lines strings.Builder
	for i := range 250 {
		fmt.Fprintf(&lines, `{"id":"c%d","limits":["%d/s"]}`+"\n", i, i%7+1)
	}
	s.call("POST", "/v1/clients:import", lines.String(), ndjson...).wants(200, `"clients":250`, `"created":250`, `"changes":[3,4,5]`)
	s.call("POST", "/v1/clients:import", "\n{\"id\":\"c0\",\"limits\":[\"1/s\"]}\n\n{\"id\":\"c1\",\"limits\":[\"9/s\"]}\n{\"id\":\"new\"}", ndjson...).
		wants(200, `"created":1,"updated":1,"deleted":0,"unchanged":1`)
	s.call("GET", "/v1/clients?limit=1", "").wants(200, `"total":251`)
	s.call("POST", "/v1/clients:import?prune", `{"id":"c5"}`, ndjson...).wants(200, `"updated":1,"deleted":250`)
	s.call("GET", "/v1/clients", "").wants(200, `"total":1`)
	// An import without changes has no revision.
	s.call("POST", "/v1/clients:import", `{"id":"c5"}`, ndjson...).wants(200, `"revision":10`, `"unchanged":1`)
	s.call("POST", "/v1/clients:import?prune", "", ndjson...).wants(422, "delete all")
	s.call("POST", "/v1/clients:import", "clients:\n  - id: a\n    limits: 5/s\n  - id: b\n", "Content-Type", "application/yaml").wants(200, `"created":2`)
}

func TestFailedImportReportsItsProgress(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules", searchRule).wants(201)
	s.call("POST", "/v1/clients:import", "{\"id\":\"a\"}\n{\"id\":\"b\",\"limits\":[\"x\"]}\nnot json\n{\"id\":\"a\"}\n", ndjson...).
		wants(422, `"path":"limits[0]"`, `"line":2`, `"line":3`, `"line":4`)
	s.call("GET", "/v1/clients", "").wants(200, `"total":0`)
	s.call("POST", "/v1/clients:import", "{\"id\":\"a\"}\n{\"id\":\"b\",\"attributes\":{\"user\":\"a\"}}\n", ndjson...).wants(422, `"line":2`, `identifies \"a\"`)
	s.call("POST", "/v1/clients:import", `{"clients":[{"id":"a"},{"id":"b c"},{"id":"a"}]}`).wants(422, `"path":"clients[1].id"`, `"path":"clients[2]`)
	s.call("POST", "/v1/clients:import", `{"clients":[{"id":"a","limitz":[]}]}`).wants(422, `"path":"clients[0].limitz"`)
	s.call("POST", "/v1/clients:import", `{"rules":[],"clients":[]}`).wants(422, `"path":"rules"`)

	s.server.SetImportChunk(100)
	var lines strings.Builder
	for i := range 100 {
		fmt.Fprintf(&lines, "{\"id\":\"c%d\"}\n", i)
	}
	lines.WriteString(`{"id":"c"` + strings.Repeat(" ", 70_000) + "}\n")
	s.call("POST", "/v1/clients:import", lines.String(), ndjson...).wants(422, `"line":101`, `"import":{"revision":`, `"created":100`)
	s.call("GET", "/v1/clients?limit=1", "").wants(200, `"total":100`)
}

func TestOnlyImportsMayExceedTheMaximumBody(t *testing.T) {
	s := open(t, api.Config{MaxBody: 10 << 20})
	large := `{"id":"x","description":"` + strings.Repeat("x", 10<<20) + `"}`
	for _, tt := range [][2]string{{"POST", "/v1/rules"}, {"PUT", "/v1/rules/x"}, {"POST", "/v1/rules:apply"}, {"POST", "/v1/validate"}, {"POST", "/v1/tokens"}} {
		s.call(tt[0], tt[1], large).wants(http.StatusRequestEntityTooLarge)
	}
	// A body of unknown length.
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/v1/validate", io.MultiReader(strings.NewReader(large)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.admin)
	got, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Body.Close()
	if got.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of unknown length: got %d, want 413", got.StatusCode)
	}
	small := open(t, api.Config{MaxBody: 1 << 10})
	var lines strings.Builder
	for i := range 500 {
		fmt.Fprintf(&lines, "{\"id\":\"c%d\"}\n", i)
	}
	small.call("POST", "/v1/clients:import", lines.String(), ndjson...).wants(200, `"created":500`)
}

func TestMalformedInputChangesNothing(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules", searchRule).wants(201)
	for _, tt := range []struct {
		method, path, body, kind string
		want                     int
	}{
		{"POST", "/v1/rules", ``, "", 422},
		{"POST", "/v1/rules", `{`, "application/json", 422},
		{"POST", "/v1/rules", `{"id":"a","id":"b","limits":["1/s"]}`, "", 422},
		{"POST", "/v1/rules", `[]`, "", 422},
		{"POST", "/v1/rules", `null`, "", 422},
		{"POST", "/v1/rules", "\xff\xfe", "", 422},
		{"POST", "/v1/rules", strings.Repeat("[", 10000), "application/json", 422},
		{"POST", "/v1/rules", `a=b`, "application/x-www-form-urlencoded", 422},
		{"POST", "/v1/rules", searchRule, "multipart/form-data; boundary=x", 415},
		{"POST", "/v1/rules", searchRule, ";;", 415},
		{"PUT", "/v1/rules/search", `{"id":"other","limits":["1/s"]}`, "", 422},
		{"PUT", "/v1/rules/a%2Fb", `{"id":"a/b","limits":["1/s"]}`, "", 422},
		{"PUT", "/v1/rules/%C3%BCber", `{"id":"über","limits":["1/s"]}`, "", 422},
		{"GET", "/v1/rules/a%2Fb", "", "", 404},
		{"GET", "/v1/rules/%C3%BCber", "", "", 404},
		{"GET", "/v1/rules/x%00y", "", "", 404},
		{"GET", "/v1/rules/%27%3B%20DROP%20TABLE%20objects%3B--", "", "", 404},
		{"GET", "/v1/rules?q=%27%3B%20DROP%20TABLE%20objects%3B--", "", "", 200},
		{"GET", "/v1/rules/" + strings.Repeat("x", 600), "", "", 404},
		{"GET", "/v1/rules/", "", "", 404},
		{"GET", "/v1/rules/search/", "", "", 404},
		{"GET", "/v1//rules", "", "", 404},
		{"GET", "/v1/rules/..%2Fsearch", "", "", 404},
		{"PATCH", "/v1/rules", "{}", "", 405},
		{"TRACE", "/v1/rules", "", "", 405},
		{"PATCH", "/v1/rules/search", `[]`, "", 400},
		{"PATCH", "/v1/rules/search", `{"id":"b"}`, "", 422},
		{"PATCH", "/v1/rules/search", `{"limits":null}`, "", 422},
		{"POST", "/v1/explain", `{"attributez":{}}`, "", 422},
		{"POST", "/v1/rules:apply", "rules: &a [*a]", "application/yaml", 422},
		{"GET", "/v1/rules?namespace=%C3%BCber", "", "", 400},
		{"GET", "/v1/rules?namespace=_system", "", "", 400},
		{"GET", "/v1/rules?a=%zz", "", "", 400},
	} {
		var headers []string
		if tt.kind != "" {
			headers = []string{"Content-Type", tt.kind}
		}
		got := s.call(tt.method, tt.path, tt.body, headers...)
		if got.status != tt.want {
			t.Errorf("%s %.60s %.60q: got %d, want %d: %s", tt.method, tt.path, tt.body, got.status, tt.want, got.body)
		}
		if kind := got.header.Get("Content-Type"); got.status >= 400 && kind != "application/problem+json" {
			t.Errorf("%s %.60s: Content-Type %q: want application/problem+json", tt.method, tt.path, kind)
		}
		if got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Cache-Control") != "no-store" || got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %.60s: got headers %v", tt.method, tt.path, got.header)
		}
	}
	if got := s.call("OPTIONS", "/v1/rules", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST"); got.status != 405 || got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight: got %d, %v, want 405 and no CORS", got.status, got.header)
	}
	s.call("GET", "/v1/rules", "").wants(200, `"total":1`, `"10/s burst 20"`)
}

func TestTruncatedImportIsAnError(t *testing.T) {
	s := open(t, api.Config{})
	s.server.SetImportChunk(2)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	// The length of five lines is announced, and half of them arrive.
	fmt.Fprintf(conn, "POST /v1/clients:import HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-ndjson\r\nContent-Length: 55\r\n\r\n"+
		"{\"id\":\"a1\"}\n{\"id\":\"a2\"}\n{\"id\":", s.admin)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got.StatusCode != 400 || !strings.Contains(string(text), "could not be received") || !strings.Contains(string(text), `"created":2`) {
		t.Errorf("got %d %s, want 400, and that two were imported", got.StatusCode, text)
	}
}

func TestBodiesNeedNoContentType(t *testing.T) {
	s := open(t, api.Config{})
	for i, kind := range []string{"", "application/x-www-form-urlencoded", "text/plain;charset=UTF-8"} {
		var headers []string
		if kind != "" {
			headers = []string{"Content-Type", kind}
		}
		s.call("POST", "/v1/rules", fmt.Sprintf(`{"id":"json%d","limits":["1/s"]}`, i), headers...).wants(201)
		s.call("POST", "/v1/rules", fmt.Sprintf("id: yaml%d\nlimits: [1/s]\n", i), headers...).wants(201)
		s.call("PATCH", fmt.Sprintf("/v1/rules/json%d", i), `{"limits":["2/s"]}`, headers...).wants(200)
	}
}

func TestPruningImportIsBounded(t *testing.T) {
	s := open(t, api.Config{})
	s.server.SetImportPruned(2)
	lines := `{"id":"a"}` + "\n" + `{"id":"b"}` + "\n"
	s.call("POST", "/v1/clients:import", `{"id":"old"}`, ndjson...).wants(200)
	s.call("POST", "/v1/clients:import?prune", lines+`{"id":"c"}`, ndjson...).wants(413, "More than 2 clients")
	s.call("GET", "/v1/clients/old", "").wants(200)
	s.call("POST", "/v1/clients:import?prune", lines, ndjson...).wants(200, `"deleted":1`)
}
