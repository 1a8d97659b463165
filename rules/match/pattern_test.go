package match_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// matches reports whether a rule with one condition matches, alone and beside enough rules for an index.
func matches(t *testing.T, a headgate.Attribute, pattern, value string) bool {
	t.Helper()
	list := []rules.Rule{exactly(rules.Rule{ID: "it", When: is(a, pattern), Limits: limits("1/s")})}
	for _, id := range []string{"b", "c", "d", "e", "f"} {
		list = append(list, rules.Rule{ID: id, When: is(user, "somebody-else-"+id), Limits: limits("1/s")})
	}
	alone := len(compile(t, list[:1]).Match(rules.Attributes{a: value}, nil)) == 1
	among := len(compile(t, list).Match(rules.Attributes{a: value}, nil)) == 1
	if alone != among {
		t.Errorf("%s %q, %q: %v looked at, %v in an index", a, pattern, value, alone, among)
	}
	return among
}

// exactly returns a rule that treats no two paths as equal.
func exactly(r rules.Rule) rules.Rule {
	r.Case, r.TrailingSlash = rules.StrictExact, rules.StrictExact
	return r
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct {
		attribute headgate.Attribute
		pattern   string
		yes, no   string // values, separated by spaces
	}{
		{path, "/search", "/search", "/ /search/ /Search /searching /search/x"},
		{path, "/search/**", "/search /search/ /search/x /search/x/y", "/ /searching /a/search"},
		{path, "/search/*", "/search/ /search/x", "/search /search/x/ /search/x/y"},
		{path, "/**", "/ /a /a/b //", "*"},
		{path, "**", "/ /a *", ""},
		{path, "*", "/ /a /a/b *", ""},
		{path, "/*", "/ /a", "/a/ /a/b"},
		{path, "/v*/users", "/v/users /v1/users", "/1/users /v1/x/users /v1/users/"},
		{path, "/*.json", "/.json /a.json /a.b.json", "/a.jsonx /a/b.json /a"},
		{path, "/a*b*c", "/abc /aXbYc /abbcc", "/ab /acb /abcd /a/b/c"},
		{path, "/a/**/b", "/a/b /a/x/b /a/x/y/b /a/b/b", "/a/xb /ab /a/b/c /b"},
		{path, "/**/b", "/b /a/b /a/a/b", "/b/a /ab"},
		{path, "**/b", "b /b /a/b", "/b/a"},
		{path, "/a/**/b/**/c", "/a/b/c /a/x/b/y/c /a/b/b/c/c", "/a/c /a/b /a/c/b"},
		{path, "/a/**/*/c", "/a/x/c /a/x/y/c", "/a/c"},
		{path, `/a\*b`, "/a*b", "/aXb"},
		{path, "/a//b", "/a//b", "/a/b"},
		{host, "api.example.com", "api.example.com", "example.com x.api.example.com api.example.org"},
		{host, "API.Example.com", "api.example.com", ""},
		{host, "*.example.com", "a.example.com a.b.example.com", "example.com aexample.com a.example.com.evil.org"},
		{host, "api-*.example.com", "api-1.example.com api-.example.com", "api.example.com"},
		{host, "*", "anything", ""},
		{host, "[2001:DB8:0::1]", "2001:db8::1", "[2001:db8::1] 2001:db8::2"},
		{host, "2001:db8::1", "2001:db8::1", "2001:db8::10"},
		{path, "/b%C3%BCcher/*", "/b%C3%BCcher/7", "/bücher/7"},
		{headgate.Attribute{Kind: headgate.AttrSegment, Name: "1"}, "v*", "v v1", "x"},
		{method, "get", "GET get Get", "POST"},
		{method, "P*", "POST PUT P", "GET"},
		{user, "alice", "alice", "Alice alice2"},
		{user, "team-*", "team- team-7", "team xteam-1"},
		{user, "*bot*", "bot abot robots", "bo"},
		{user, "a/*", "a/ a/b a/b/c", "a"},
		{ip, "10.0.0.0/8", "10.1.2.3 ::ffff:10.1.2.3 10.1.0.0/16", "11.0.0.1 10.0.0.0/7 nonsense"},
		{ip, "192.0.2.1", "192.0.2.1 192.0.2.1/32", "192.0.2.2 192.0.2.0/24"},
		{ip, "::ffff:10.0.0.0/104", "10.1.2.3", "11.0.0.1"},
		{ip, "2001:db8::/32", "2001:db8::1 2001:db8:1::/48", "2001:db9::1 2001::/16 10.0.0.1"},
		{ip, "0.0.0.0/0", "1.2.3.4", "::1"},
		{ip, "::/0", "::1", "1.2.3.4"},
		{ip, "*", "1.2.3.4 nonsense", ""},
	} {
		for _, value := range strings.Fields(tt.yes) {
			if !matches(t, tt.attribute, tt.pattern, value) {
				t.Errorf("%s %q does not match %q", tt.attribute, tt.pattern, value)
			}
		}
		for _, value := range strings.Fields(tt.no) {
			if matches(t, tt.attribute, tt.pattern, value) {
				t.Errorf("%s %q matches %q", tt.attribute, tt.pattern, value)
			}
		}
	}
}

func TestAnEmptyValueIsAValue(t *testing.T) {
	set := compile(t, []rules.Rule{
		{ID: "there", When: is(user, "*"), Limits: limits("1/s")},
		{ID: "empty", When: is(user, ""), Limits: limits("1/s")},
		{ID: "missing", When: rules.Condition{Not: []rules.Condition{is(user, "*")}}, Limits: limits("1/s")},
	})
	for _, tt := range []struct {
		request rules.Attributes
		want    string
	}{
		{rules.Attributes{user: ""}, "there empty"}, {rules.Attributes{user: "u"}, "there"}, {rules.Attributes{}, "missing"},
	} {
		var got []string
		for _, m := range set.Match(tt.request, nil) {
			got = append(got, m.Rule.ID)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%v: got %v, want %s", tt.request, got, tt.want)
		}
	}
}

// Not every request has a path: a check by name has none. It matches only rules without a path.
func TestRequestsWithoutAPath(t *testing.T) {
	var list []rules.Rule
	for _, pattern := range []string{"/**", "**", "*/**", "/", "/*", "*"} {
		when := rules.Condition{Tests: []rules.Test{{Attribute: host, Values: []string{"a.example"}}, {Attribute: path, Values: []string{pattern}}}}
		list = append(list, rules.Rule{ID: fmt.Sprint("path-", len(list)), When: when, Limits: limits("1/s")})
	}
	list = append(list, rules.Rule{ID: "host", When: is(host, "a.example"), Limits: limits("1/s")})
	var got []string
	for _, m := range compile(t, list).Match(rules.Attributes{host: "a.example"}, nil) {
		got = append(got, m.Rule.ID)
	}
	if len(got) != 1 || got[0] != "host" {
		t.Errorf("got %v, want host alone", got)
	}
}

// A pattern is refused, or matches the same values as its regular expression.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{
		{"/search/**", "/search/x"},
		{"/a/**/b", "/a/x/b"},
		{"*.example.com", "a.example.com"},
		{"/*.json", "/a.json"},
		{`a\*b`, "a*b"},
		{"/a*b*c", "/aXbYc"},
		{"**/x/**/y", "/x/y"},
		{"10.0.0.0/8", "10.1.2.3"},
		{"team-*", "team-1"},
	} {
		for kind := range byte(6) {
			f.Add(kind, seed[0], seed[1])
		}
	}
	attributes := []headgate.Attribute{path, host, user, ip, method, {Kind: headgate.AttrSegment, Name: "1"}}
	f.Fuzz(func(t *testing.T, kind byte, pattern, value string) {
		a := attributes[int(kind)%len(attributes)]
		rule := exactly(rules.Rule{ID: "it", When: is(a, pattern), Limits: limits("1/s")})
		if rules.Validate([]rules.Rule{rule}) != nil || strings.ContainsAny(value, "\x00\x01") {
			return // requests have no control characters
		}
		list := []rules.Rule{rule}
		slow := naive{list: list}
		want := len(slow.match(slashed{rules.Attributes{a: value}})) == 1
		if got := matches(t, a, pattern, value); got != want {
			t.Errorf("%s %q, %q: got %v, want %v", a, pattern, value, got, want)
		}
	})
}
