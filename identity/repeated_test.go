package identity

import (
	"testing"
)

func TestRepeatedCookiesAndParameters(t *testing.T) {
	refuse, first, last := newID(t, Config{}), newID(t, Config{Repeated: FirstRepeated}), newID(t, Config{Repeated: LastRepeated})
	for _, tt := range []struct {
		name, attr  string
		target      string
		lines       []string
		first, last string
		repeats     bool // differs
		odd         bool // whatever Config.Repeated says
	}{
		{"a parameter once", "query.t", "/?t=1", nil, "1", "1", false, false},
		{"a parameter twice the same", "query.t", "/?t=1&t=1", nil, "1", "1", false, false},
		{"a parameter that differs", "query.t", "/?t=1&x=y&t=2", nil, "1", "2", true, false},
		{"a parameter that differs, escaped", "query.t", "/?t=1&%74=2", nil, "1", "2", true, false},
		{"a parameter that is empty once", "query.t", "/?t=&t=2", nil, "-", "2", true, false},
		{"a parameter that cannot be read once", "query.t", "/?t=1&t=2;x", nil, "1", "1", false, true},
		{"a parameter before a semicolon", "query.t", "/?t=1&t;x=2", nil, "1", "1", false, true},
		{"a parameter that ends at a semicolon, or not", "query.t", "/?t=1;x", nil, "-", "-", false, true},
		{"a parameter behind a semicolon", "query.t", "/?x=y;t=1", nil, "-", "-", false, true},
		{"a parameter with an escape that is none", "query.t", "/?x=y&t=1%zz", nil, "-", "-", false, true},
		{"another parameter that cannot be read", "query.t", "/?x=1;2&t=1", nil, "1", "1", false, false},
		{"another parameter that differs", "query.t", "/?t=1&tt=2&T=3", nil, "1", "1", false, false},
		{"no parameter", "query.t", "/", nil, "-", "-", false, false},
		{"a cookie once", "cookie.s", "/", []string{"Cookie: a=b; s=1"}, "1", "1", false, false},
		{"a cookie twice the same", "cookie.s", "/", []string{`Cookie: s=1; s="1"`}, "1", "1", false, false},
		{"a cookie twice the same, escaped", "cookie.s", "/", []string{"Cookie: s=%31; s= 1"}, "1", "1", false, false},
		{"a cookie that differs", "cookie.s", "/", []string{"Cookie: s=1; a=b; s=2; c=d"}, "1", "2", true, false},
		{"a cookie that differs on two lines", "cookie.s", "/", []string{"Cookie: s=1", "Cookie: s=2"}, "1", "2", true, false},
		{"another cookie that differs", "cookie.s", "/", []string{"Cookie: s=1; S=2; ss=3"}, "1", "1", false, false},
		{"a parameter with a control character", "query.t", "/?t=1%00", nil, "1", "1", false, true},
		{"a parameter with white space around it", "query.t", "/?t=+1%C2%A0", nil, "1", "1", false, false},
		{"a cookie with a control character", "cookie.s", "/", []string{"Cookie: s=1%00"}, "1\x00", "1\x00", false, true},
		{"a cookie with an open quote", "cookie.s", "/", []string{`Cookie: s="12`}, `"12`, `"12`, false, true},
		{"a cookie with Python's escapes", "cookie.s", "/", []string{`Cookie: s="\061"`}, `\061`, `\061`, false, true},
		{"a cookie with an escape that is none", "cookie.s", "/", []string{"Cookie: s=1%"}, "1%", "1%", false, true},
		{"a cookie with other white space", "cookie.s", "/", []string{"Cookie: \xa0s=1\xa0; s=2"}, "1", "2", true, false},
		{"a header once", "header.x-t", "/", []string{"X-T: 1, 2"}, "1, 2", "1, 2", false, false},
		{"a header that differs", "header.x-t", "/", []string{"X-T: 1", "X-T: 2"}, "1, 2", "1, 2", true, false},
		{"a header twice the same", "header.x-t", "/", []string{"X-T: 1", "X-T:  1 "}, "1, 1", "1, 1", false, false},
		{"what cannot be repeated", "user", "/", nil, "-", "-", false, false},
	} {
		r := request("192.0.2.1:1", tt.target, tt.lines...)
		for _, is := range []struct {
			id      *Identifier
			want    string
			repeats bool
		}{{refuse, tt.first, tt.repeats || tt.odd}, {first, tt.first, tt.odd}, {last, tt.last, tt.odd}} {
			var a Attributes
			is.id.Read(r, &a)
			if err := a.Validate(); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			if got, repeats := value(t, &a, tt.attr), a.Repeats(attr(t, tt.attr)); got != is.want || repeats != is.repeats {
				t.Errorf("%s, %d: got %q, repeats %v; want %q, %v", tt.name, is.id.config.Repeated, got, repeats, is.want, is.repeats)
			}
		}
	}
	if _, err := New(Config{Repeated: 3}); err == nil {
		t.Error("Repeated 3: no error")
	}
	if _, err := New(Config{Paths: PathRules{Parameters: 3}}); err == nil {
		t.Error("Paths.Parameters 3: no error")
	}
	var given Attributes
	if err := refuse.ReadValues(Values{Attributes: map[string]string{"query.t": "1"}}, &given); err != nil || given.Repeats(attr(t, "query.t")) {
		t.Errorf("what is given: repeats %v, %v", given.Repeats(attr(t, "query.t")), err)
	}
}

// An API key in the query that is there twice, or is read in several ways, is malformed whatever Repeated says: it is a
// credential.
func TestRepeatedAPIKeyIsMalformed(t *testing.T) {
	for _, repeated := range []Repeated{RefuseRepeated, FirstRepeated, LastRepeated} {
		id := newID(t, Config{APIKeyQuery: "api_key", Repeated: repeated})
		for _, query := range []string{"api_key=a&api_key=b", "api_key=a;x=y", "api_key=a%"} {
			if got := part(t, id, request("192.0.2.1:1", "/?"+query)); got != "API key" {
				t.Errorf("%d, %s: malformed %q, want the API key", repeated, query, got)
			}
		}
		if got := part(t, id, request("192.0.2.1:1", "/?x=1;2&api_key=a")); got != "" {
			t.Errorf("%d, another that cannot be read: malformed %q, want nothing", repeated, got)
		}
	}
}
