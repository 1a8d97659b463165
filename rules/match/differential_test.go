package match_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/manyrules"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A source of choices draws rules and requests from few words, so that they meet.
type source interface{ IntN(n int) int }

func pick[T any](s source, list ...T) T { return list[s.IntN(len(list))] }

var (
	pathWords   = []string{"", "a", "b", "ab", "aB", "abc", "search", "x.json", "y.json", "a*b"}
	hostWords   = []string{"example", "com", "api", "a", "b"}
	valueWords  = []string{"", "gold", "silver", "go", "g", "old", "free trial", "a*b", `a\b`}
	methods     = []string{"GET", "POST", "PUT", "post"}
	addresses   = []string{"10.0.0.1", "10.1.2.3", "192.0.2.1", "192.0.2.200", "::1", "2001:db8::1", "2001:db8:1::/48", "fe80::1", "nonsense"}
	networks    = []string{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "192.0.2.0/24", "192.0.2.128/25", "0.0.0.0/0", "::/0", "2001:db8::/32", "2001:db8:1::/48", "::1", "*"}
	spaces      = []string{"one", "two"}
	descriptors = headgate.Attribute{Kind: headgate.AttrDescriptor, Name: "k"}
)

// anyAttributes are the attributes of random rules and requests: more than a probe caches.
var anyAttributes = []headgate.Attribute{
	path, path, path, path, host, host, host, method, user, ip, header("x-plan"), header("x-a"), header("x-b"),
	{Kind: headgate.AttrAPIKey},
	{Kind: headgate.AttrRegion},
	{Kind: headgate.AttrCookie, Name: "c"},
	{Kind: headgate.AttrQuery, Name: "q"},
	{Kind: headgate.AttrJWT, Name: "org"},
	descriptors,
}

func drawPattern(s source, kind headgate.AttributeKind) string {
	switch kind {
	case headgate.AttrPath:
		text := ""
		if s.IntN(12) == 0 {
			text = pick(s, "**", "*", `**/a`, "*/a")
		}
		for range s.IntN(5) {
			text += "/" + pick(s, "a", "b", "Ab", "ab", "search", "*", "*", "**", "a*", "*b", "*.json", "a*c", "*b*", `a\*b`, "")
		}
		if text == "" {
			text = "/"
		}
		return text
	case headgate.AttrHost:
		text := pick(s, "*.", "", "", "a*.", "*a.", "*")
		for range s.IntN(3) {
			text += pick(s, hostWords...) + "."
		}
		return text + pick(s, hostWords...)
	case headgate.AttrMethod:
		return pick(s, "get", "GET", "POST", "P*", "*")
	case headgate.AttrIP:
		return pick(s, networks...)
	default:
		return pick(s, "gold", "silver", "go*", "g*", "*old", "*", "g*d", "*l*", `a\*b`, `a\\b`, "free trial", "")
	}
}

func drawValue(s source, kind headgate.AttributeKind) string {
	switch kind {
	case headgate.AttrPath:
		text := ""
		for range s.IntN(6) {
			text += "/" + pick(s, pathWords...)
		}
		if text == "" {
			text = pick(s, "/", "", "*")
		}
		return text
	case headgate.AttrHost:
		text := ""
		for range s.IntN(3) {
			text += pick(s, hostWords...) + "."
		}
		return text + pick(s, hostWords...)
	case headgate.AttrMethod:
		return pick(s, methods...)
	case headgate.AttrIP:
		return pick(s, addresses...)
	case headgate.AttrNamespace:
		return pick(s, spaces...)
	default:
		return pick(s, valueWords...)
	}
}

func drawCondition(s source, depth int) rules.Condition {
	var c rules.Condition
	for range 1 + s.IntN(3) {
		t := rules.Test{Attribute: pick(s, anyAttributes...)}
		for range 1 + s.IntN(3)*s.IntN(2) {
			t.Values = append(t.Values, drawPattern(s, t.Attribute.Kind))
		}
		if s.IntN(40) == 0 { // many values
			for i := range 20 {
				t.Values = append(t.Values, drawPattern(s, t.Attribute.Kind))
				if t.Attribute.Kind == headgate.AttrUser {
					t.Values[i] = fmt.Sprint("user-", i)
				}
			}
		}
		c.Tests = append(c.Tests, t)
	}
	if depth == 0 {
		return c
	}
	below := func() (list []rules.Condition) {
		for range 1 + s.IntN(3) {
			list = append(list, drawCondition(s, depth-1))
		}
		return list
	}
	switch s.IntN(8) {
	case 0:
		c.Any = below()
	case 1:
		c.Not = below()
	case 2:
		c.All = below()
	case 3:
		c.Any, c.Tests = below(), nil
	case 4:
		c.Any, c.Not, c.All = below(), below(), below()
	}
	return c
}

func drawRules(s source, n int) []rules.Rule {
	list := make([]rules.Rule, n)
	for i := range list {
		r := &list[i]
		r.ID = fmt.Sprint("rule-", i)
		r.Limits = []rules.Limit{{Limit: headgate.PerSecond(10)}}
		if s.IntN(20) > 0 {
			r.When = drawCondition(s, 2)
		}
		r.Priority = s.IntN(3)
		r.Disabled = s.IntN(20) == 0
		if r.Unlimited = s.IntN(20) == 0; r.Unlimited {
			r.Limits = nil
		}
		if s.IntN(2) == 0 {
			r.Case, r.TrailingSlash = rules.Strictness(s.IntN(3)), rules.Strictness(s.IntN(3))
		}
		if s.IntN(4) == 0 {
			r.Namespace = pick(s, spaces...)
		}
	}
	return list
}

func drawRequest(s source) rules.Attributes {
	request := rules.Attributes{}
	for _, a := range anyAttributes {
		if s.IntN(4) > 0 {
			request[a] = drawValue(s, a.Kind)
		}
	}
	for _, a := range []headgate.Attribute{path, host} {
		if s.IntN(8) == 0 {
			delete(request, a)
		}
	}
	if s.IntN(3) == 0 {
		a := headgate.Attribute{Kind: headgate.AttrNamespace}
		request[a] = drawValue(s, a.Kind)
	}
	return request
}

// sameMatches compares the index with the naive matcher.
func sameMatches(t *testing.T, list []rules.Rule, requests []rules.Attributes) (matched int) {
	t.Helper()
	set, err := match.Compile(list)
	if err != nil {
		t.Fatalf("rules that were drawn do not compile: %v", err)
	}
	slow := naive{list: list}
	for _, request := range requests {
		want := slow.match(slashed{request})
		var got []string
		for _, m := range set.Match(request, nil) {
			got = append(got, m.Rule.ID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("request %v matches\n got %v\nwant %v\nof %s", request, got, want, describe(list, got, want))
		}
		matched += len(got)
	}
	return matched
}

// describe shows the rules on which two lists differ.
func describe(list []rules.Rule, a, b []string) string {
	text := ""
	for _, r := range list {
		if slices.Contains(a, r.ID) != slices.Contains(b, r.ID) {
			text += fmt.Sprintf("\n%s: case %s, trailing_slash %s: %+v", r.ID, r.Case, r.TrailingSlash, r.When)
		}
	}
	return text
}

func TestIndexAgreesWithNaiveMatcher(t *testing.T) {
	matched := 0
	const seeds = 300 / racing.Slower
	for seed := range uint64(seeds) {
		s := rand.New(rand.NewPCG(seed, 1))
		list := drawRules(s, 1+s.IntN(120))
		var asked []rules.Attributes
		for range 60 {
			asked = append(asked, drawRequest(s))
		}
		matched += sameMatches(t, list, asked)
	}
	if matched < 30*seeds {
		t.Errorf("only %d rules matched: the random requests match too few of the rules", matched)
	}
}

func TestIndexOfTheBenchmarkAgreesWithNaiveMatcher(t *testing.T) {
	const n = 999
	list := manyrules.Mixed(n)
	set := compile(t, list)
	slow := naive{list: list}
	for _, r := range manyrules.MatchingFive(200, n) {
		want := slow.match(slashed{r})
		var got []string
		for _, m := range set.Match(r, nil) {
			got = append(got, m.Rule.ID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("request %v matches\n got %v\nwant %v", r, got, want)
		}
	}
}

// bytesSource draws from bytes, for the fuzzer.
type bytesSource struct{ data []byte }

func (b *bytesSource) IntN(n int) int {
	if len(b.data) == 0 {
		return 0
	}
	c := b.data[0]
	b.data = b.data[1:]
	return int(c) % n
}

func FuzzMatchAgreesWithNaiveMatcher(f *testing.F) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		data := make([]byte, 50+r.IntN(2000))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &bytesSource{data}
		asked := []rules.Attributes{drawRequest(s), drawRequest(s), drawRequest(s)}
		sameMatches(t, drawRules(s, 1+s.IntN(30)), asked)
	})
}
