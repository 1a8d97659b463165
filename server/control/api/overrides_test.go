package api_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control/api"
)

// wrongPaths returns the paths and lines of the problems in a response.
func wrongPaths(a answer) (paths []string, lines []int) {
	var got struct {
		Errors []struct {
			Path string
			Line int
		}
	}
	a.into(&got)
	for _, e := range got.Errors {
		paths, lines = append(paths, e.Path), append(lines, e.Line)
	}
	return paths, lines
}

// Problems of an override have paths of the override, although it is checked as a client.
func TestAllProblemsOfAnOverrideAreListedWithPaths(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules", `{"id":"search","key":["user"],"limits":["10/s"],"cost":5}`).wants(201)
	for body, want := range map[string][]string{
		`{"client":{"user":"a"},"limits":["9/s"],"for":"0s"}`:                                        {"for"},
		`{"client":{"user":"a"},"limits":["9/s"],"for":"9000h"}`:                                     {"for"},
		`{"client":{"user":"a"},"limits":["9/s"],"expires":"2001-01-01T00:00:00Z"}`:                  {"expires"},
		`{"client":{"user":"a"},"limits":["9/s"]}`:                                                   {"expires"},
		`{"client":{"user":"a"},"limits":["9/s"],"for":"1h","expires":"2099-01-01T00:00:00Z"}`:       {"expires"},
		`{"client":{"colour":"a"},"limits":["x","9/s"],"for":"1h"}`:                                  {"client.colour", "limits[0]"},
		`{"client":{"user":"","ip":"zz"},"limits":["9/s","x"],"for":"1h","rule":"a b"}`:              {"client.ip", "client.user", "limits[1]", "rule"},
		`{"id":"a b","client":{"ip":"zz"},"limits":["x"],"for":"1h"}`:                                {"client.ip", "id", "limits[0]"},
		`{"client":{"user":"a"},"limits":["9/s"],"rule":"none","for":"1h"}`:                          {"rule"},
		`{"client":{"user":"a"},"limits":["9/s","2/s"],"rule":"search","for":"1h"}`:                  {"limits[1]"},
		`{"client":{"user":"a"},"limits":["2/s"],"for":"1h"}`:                                        {"limits[0]"},
		`{"client":{"user":["a"]},"unlimited":true,"for":"1h"}`:                                      {"client.user"},
		`{"client":{"user":"a"},"block":true,"unlimited":true,"for":"1h","nonsense":1,"rule":"a b"}`: {"limits", "nonsense"},
		`{}`: {"client", "expires", "limits"},
	} {
		got := s.call("POST", "/v1/overrides", body)
		paths, lines := wrongPaths(got)
		slices.Sort(paths)
		if got.status != 422 || !slices.Equal(paths, want) {
			t.Errorf("%s: got %d %q, want 422 %q: %s", body, got.status, paths, want, got.body)
		}
		if slices.ContainsFunc(lines, func(n int) bool { return n > 1 }) {
			t.Errorf("%s: got lines %d, where one was sent", body, lines)
		}
	}
	// A rule that conflicts with an override is refused with the override's ID.
	s.call("PUT", "/v1/overrides/sale", `{"client":{"user":"a"},"limits":["9/s"],"rule":"search","for":"1h"}`).wants(201)
	s.call("PATCH", "/v1/rules/search", `{"cost":10}`).wants(422, `"path":"overrides/sale.limits[0]"`)
}

func TestWarningForOverridesThatNoRuleUses(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules", `{"id":"search","key":["user"],"limits":["10/s"],"fallback":"skip"}`).wants(201)
	s.call("POST", "/v1/rules", `{"id":"all","limits":["100/s"]}`).wants(201)
	s.call("PUT", "/v1/clients/acme", `{"id":"acme","attributes":{"user":"acme","api_key":"k1"}}`).wants(201)
	for _, tt := range []struct{ client, rule, want string }{
		{`{"user":"a"}`, "", ""},
		{`{"user":"a"}`, "search", ""},
		{`{"api_key":"k"}`, "", "no rule counts by api_key: the override has no effect until one does"},
		{`{"ip":"192.0.2.1","api_key":"k"}`, "search", "the rule search does not count by api_key or ip"},
		{`{"ip":"192.0.2.1"}`, "", "no rule counts by ip"},
		{`{"api_key":"k1"}`, "", ""}, // acme is registered, and counted as a user
		{`{"api_key":"k1","ip":"192.0.2.1"}`, "search", ""},
	} {
		body := `{"client":` + tt.client + `,"rule":"` + tt.rule + `","unlimited":true,"for":"1h"}`
		if tt.rule == "" {
			body = strings.Replace(body, `"rule":"",`, "", 1)
		}
		var got struct{ Warnings []string }
		s.call("POST", "/v1/keys:override", body).wants(201).into(&got)
		if text := strings.Join(got.Warnings, "; "); (text == "") != (tt.want == "") || !strings.Contains(text, tt.want) {
			t.Errorf("%s: got %q, want %q", body, text, tt.want)
		}
	}
}

func TestOverrideIsPatched(t *testing.T) {
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules", `{"id":"search","key":["user"],"limits":["10/s"]}`).wants(201)
	first := s.call("PUT", "/v1/overrides/sale", `{"client":{"user":"acme"},"limits":["20/s"],"for":"1h"}`).wants(201)
	var before, after struct{ Override struct{ Expires time.Time } }
	first.into(&before)
	s.call("PATCH", "/v1/overrides/sale", `{"limits":["30/s"],"note":"more"}`, "If-Match", first.header.Get("ETag")).
		wants(200, `"limits":["30/s"]`, `"client":{"user":"acme"}`, `"note":"more"`, before.Override.Expires.Format(time.RFC3339))
	// A duration replaces the expiry.
	s.call("PATCH", "/v1/overrides/sale", `{"for":"72h"}`).wants(200, `"limits":["30/s"]`).into(&after)
	if longer := after.Override.Expires.Sub(before.Override.Expires); longer < 70*time.Hour || longer > 72*time.Hour {
		t.Errorf("got %v more, want about 71h", longer)
	}
	s.call("PATCH", "/v1/overrides/sale", `{"for":"72h","expires":"2099-01-01T00:00:00Z"}`).wants(422, `"path":"expires"`)
	s.call("PATCH", "/v1/overrides/sale", `{"limits":["5/s"]}`, "If-Match", first.header.Get("ETag")).wants(412, `-limits: [\"30/s\"]`, `+limits: [\"5/s\"]`)
	s.call("PATCH", "/v1/overrides/none", `{"limits":["5/s"]}`).wants(404)
}
