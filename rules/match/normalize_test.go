package match_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// setOf compiles rules without clients.
func setOf(t testing.TB, list ...rules.Rule) *match.Set {
	t.Helper()
	return compile(t, list)
}

// ids returns the rules that a request matches.
func ids(set *match.Set, s rules.Subject) string {
	var list []string
	for _, m := range set.Match(s, nil) {
		list = append(list, m.Rule.ID)
	}
	return strings.Join(list, " ")
}

func TestEqualPathsFollowTheRule(t *testing.T) {
	with := func(id string, c, s rules.Strictness, values ...string) rules.Rule {
		return rules.Rule{ID: id, When: is(path, values...), Limits: limits("1/s"), Case: c, TrailingSlash: s}
	}
	ignore, exact := rules.StrictIgnore, rules.StrictExact
	byDefault := func(r rules.Rule) rules.Rule {
		r.Case, r.TrailingSlash = rules.StrictDefault, rules.StrictDefault
		return r
	}
	exempt := byDefault(with("exempt", exact, exact, "/login"))
	exempt.Limits, exempt.Unlimited = nil, true
	list := []rules.Rule{
		byDefault(with("default", exact, exact, "/login")), exempt,
		with("exact", exact, exact, "/login"), with("case", ignore, exact, "/Login"), with("slash", exact, ignore, "/login/"),
		with("both", ignore, ignore, "/login"), with("below", ignore, ignore, "/Admin/**"), with("star", ignore, ignore, "/v1/*/Users"),
		with("tail", ignore, ignore, "/**/export"), with("escaped", ignore, exact, "/B%C3%BCcher"), with("root", ignore, ignore, "/"),
		with("list", ignore, ignore, "/one", "/two"),
	}
	for _, few := range []bool{false, true} { // through the index, and one by one
		for path1, want := range map[string]string{
			"/login": "default exempt exact case slash both", "/LoGin": "default case both", "/login/": "default slash both",
			"/LOGIN/": "default both", "/login/x": "",
			"/admin": "below", "/ADMIN/x": "below", "/Admin/": "below", "/administrator": "",
			"/V1/7/users/": "star", "/v1/7/users": "star", "/v1/7/8/users": "", "/a/b/EXPORT/": "tail", "/export": "tail",
			"/b%C3%BCCHER": "escaped", "/b%C3%BCcher/": "", "/": "root", "/TWO/": "list", "/one": "list", "/three": "",
		} {
			got := ""
			if few {
				for _, r := range list {
					got = strings.TrimSpace(got + " " + ids(setOf(t, r), rules.Attributes{path: path1}))
				}
			} else {
				got = ids(setOf(t, list...), rules.Attributes{path: path1})
			}
			if got != want {
				t.Errorf("%s: got %q, want %q", path1, got, want)
			}
		}
	}
}

func TestHeadCountsAsGet(t *testing.T) {
	set := setOf(t,
		rules.Rule{ID: "get", When: is(method, "get"), Limits: limits("1/s")},
		rules.Rule{ID: "only", When: rules.Condition{Tests: is(method, "GET").Tests, Not: []rules.Condition{is(method, "HEAD")}}, Limits: limits("1/s")},
		rules.Rule{ID: "head", When: is(method, "HEAD"), Limits: limits("1/s")},
		rules.Rule{ID: "post", When: is(method, "POST"), Limits: limits("1/s")},
		rules.Rule{ID: "writes", When: rules.Condition{Not: []rules.Condition{is(method, "GET")}}, Limits: limits("1/s")},
		rules.Rule{ID: "counted", When: is(path, "/k"), Key: []headgate.Attribute{method}, Limits: limits("1/s")},
	)
	for m, want := range map[string]string{"GET": "get only", "HEAD": "get head", "head": "get head", "POST": "post writes", "PUT": "writes"} {
		if got := ids(set, rules.Attributes{method: m, path: "/"}); got != want {
			t.Errorf("%s: got %q, want %q", m, got, want)
		}
	}
	key := func(m string) string {
		s := rules.Attributes{method: m, path: "/k"}
		matched, _ := set.MatchRule("counted", s)
		return string(matched.AppendKey(nil, s, 0))
	}
	if key("HEAD") != key("GET") || key("POST") == key("GET") {
		t.Error("HEAD has another counter than GET, or POST has not")
	}
}

// A rule that counts by paths has one counter for equal paths, and its overrides match equal paths.
func TestKeysAndOverridesAreNormalized(t *testing.T) {
	segment := headgate.Attribute{Kind: headgate.AttrSegment, Name: "1"}
	for _, key := range [][]headgate.Attribute{{path}, {user, path}, {segment}} {
		set := setOf(t, rules.Rule{
			ID: "a", Key: key, Limits: limits("10/s"), Case: rules.StrictIgnore, TrailingSlash: rules.StrictIgnore,
			Overrides: []rules.Override{{When: is(path, "/low"), Limits: limits("1/s")}},
		})
		one := ""
		for _, text := range []string{"/low", "/LOW", "/Low/"} {
			s := rules.Attributes{path: text, user: "alice", segment: strings.Trim(text, "/")}
			m := set.Match(s, nil)
			if len(m) != 1 || m[0].Override != 0 {
				t.Fatalf("%s: got %+v, want the override", text, m)
			}
			got := string(m[0].AppendKey(nil, s, 0))
			if one == "" {
				one = got
			}
			if got != one {
				t.Errorf("%s, key %v: got %q, want %q", text, key, got, one)
			}
		}
	}
	if got := setOf(t, rules.Rule{ID: "a", Key: []headgate.Attribute{path, method}, Limits: limits("1/s"), Case: rules.StrictIgnore}).Attributes(); !slices.Contains(got, path) ||
		!slices.Contains(got, method) || slices.ContainsFunc(got, func(a headgate.Attribute) bool { return strings.Contains(a.Name, "\x00") }) {
		t.Errorf("got attributes %v, want those of requests", got)
	}
}

// The oracle normalizes both sides itself, and uses rules without normalization.
func TestNormalizationAgreesWithNormalizedPaths(t *testing.T) {
	from := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "A", "bb", "bB", "*", "c%C3%A4", "x*", "**"}
	values := []string{"a", "A", "bb", "BB", "bb", "c%C3%A4", "C%C3%A4", "xy", "XY"}
	draw := func(from *rand.Rand, of []string) string {
		text := ""
		for range 1 + from.IntN(3) {
			text += "/" + of[from.IntN(len(of))]
		}
		if from.IntN(3) == 0 {
			text += "/"
		}
		return text
	}
	const escaped = "%C3%A4"
	usual := func(text string) string {
		pieces := strings.Split(text, escaped)
		for i := range pieces {
			pieces[i] = strings.ToLower(pieces[i])
		}
		if text = strings.Join(pieces, escaped); len(text) > 1 {
			text = strings.TrimSuffix(text, "/")
		}
		return text
	}
	for h := range 300 {
		var formed, plain []rules.Rule
		for i := range 1 + from.IntN(12) {
			text := draw(from, parts)
			r := rules.Rule{ID: fmt.Sprint("r", i), When: is(path, text), Limits: limits("1/s")}
			p := exactly(r)
			p.When = is(path, usual(text))
			r.Case, r.TrailingSlash = rules.StrictIgnore, rules.StrictIgnore
			formed, plain = append(formed, r), append(plain, p)
		}
		a, b := setOf(t, formed...), setOf(t, plain...)
		for range 30 {
			text := draw(from, values)
			if got, want := ids(a, rules.Attributes{path: text}), ids(b, rules.Attributes{path: usual(text)}); got != want {
				t.Fatalf("history %d, %s: got %q, want %q by %+v", h, text, got, want, plain)
			}
		}
	}
}

func TestDoubtsAreAboutEqualPaths(t *testing.T) {
	login := func(change func(*rules.Rule)) []rules.Rule {
		r := exactly(rules.Rule{ID: "login", When: is(path, "/login"), Limits: limits("5/m")})
		change(&r)
		return []rules.Rule{r}
	}
	for name, tt := range map[string]struct {
		list []rules.Rule
		want []string
	}{
		"exactly one path":      {login(func(*rules.Rule) {}), []string{"/login/ and /LOGIN", "trailing_slash: ignore and case: ignore"}},
		"one that says nothing": {login(func(r *rules.Rule) { r.Case, r.TrailingSlash = rules.StrictDefault, rules.StrictDefault }), nil},
		"one that ignores":      {login(func(r *rules.Rule) { r.Case, r.TrailingSlash = rules.StrictIgnore, rules.StrictIgnore }), nil},
		"half of it":            {login(func(r *rules.Rule) { r.TrailingSlash = rules.StrictIgnore }), []string{"/LOGIN", "case: ignore"}},
		"all below":             {login(func(r *rules.Rule) { r.When = is(path, "/api/**") }), nil},
		"all below, blocked":    {login(func(r *rules.Rule) { r.When, r.Limits, r.Block = is(path, "/admin/**"), nil, true }), []string{"/ADMIN/**", "case: ignore"}},
		"one that exempts":      {login(func(r *rules.Rule) { r.Limits, r.Unlimited = nil, true }), nil},
		"one out of force":      {login(func(r *rules.Rule) { r.Disabled = true }), nil},
		"no path":               {login(func(r *rules.Rule) { r.When = is(user, "alice") }), nil},
		"below any":             {login(func(r *rules.Rule) { r.When = rules.Condition{Any: []rules.Condition{is(path, "/a"), is(user, "b")}} }), []string{"/a/"}},
		"numbers have no case":  {login(func(r *rules.Rule) { r.When, r.TrailingSlash = is(path, "/1"), rules.StrictIgnore }), nil},
	} {
		got := rules.Warnings(tt.list)
		if (len(got) > 0) != (tt.want != nil) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(got[0].Want, want) {
				t.Errorf("%s: got %q, want %q in it", name, got[0].Want, want)
			}
		}
	}
}
