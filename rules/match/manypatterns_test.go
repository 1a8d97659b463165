package match_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// drawText draws a text of few letters, so that texts are parts of each other.
func drawText(s source, letters string, most int) string {
	b := make([]byte, s.IntN(most+1))
	for i := range b {
		b[i] = letters[s.IntN(len(letters))]
	}
	return string(b)
}

// drawStars draws a pattern with stars.
func drawStars(s source, isPath bool) string {
	text := pick(s, "*", "*", "") + drawText(s, "ab", 6) + "*" + drawText(s, "ab", 6) + pick(s, "*", "", "a")
	if s.IntN(10) == 0 {
		text = "*" + strings.Repeat("ab", 10+s.IntN(10)) + pick(s, "", "*")
	}
	for strings.Contains(text, "**") {
		text = strings.ReplaceAll(text, "**", "*")
	}
	if isPath {
		text = pick(s, "/**/", "/*/", "/a/", "/", "/**/*/") + text + pick(s, "", "", "/**", "/**/b", "/*")
	}
	return text
}

// ruleOn returns a rule with one test. Paths are compared as they are.
func ruleOn(i int, a headgate.Attribute, values ...string) rules.Rule {
	return rules.Rule{
		ID: fmt.Sprint("rule-", i), Limits: limits("10/s"), Case: rules.StrictExact, TrailingSlash: rules.StrictExact,
		When: rules.Condition{Tests: []rules.Test{{Attribute: a, Values: values}}},
	}
}

func TestPatternsByEndAndTextAgreeWithNaiveMatcher(t *testing.T) {
	matched := 0
	const seeds = 300 / racing.Slower
	for seed := range uint64(seeds) {
		s := rand.New(rand.NewPCG(seed, 3))
		var list []rules.Rule
		for i := range 10 + s.IntN(60) {
			a := pick(s, header("x-a"), header("x-a"), path, host)
			list = append(list, ruleOn(i, a, drawStars(s, a == path)))
		}
		var asked []rules.Attributes
		for range 40 {
			asked = append(asked, rules.Attributes{
				header("x-a"): drawText(s, "ab", 60),
				host:          "x" + drawText(s, "ab", 12),
				path:          "/" + drawText(s, "ab/", 12),
			})
		}
		matched += sameMatches(t, list, asked)
	}
	if matched < 30*seeds {
		t.Errorf("only %d rules matched: the random requests match too few of the rules", matched)
	}
}

// listed is a subject whose names are those of http.Header.
type listed struct{ rules.Attributes }

func (l listed) AppendNames(dst []string, kind headgate.AttributeKind) ([]string, bool) {
	dst, ok := l.Attributes.AppendNames(dst, kind)
	for i, name := range dst {
		if kind == headgate.AttrHeader {
			dst[i] = strings.ToUpper(name[:1]) + name[1:2] + strings.ToUpper(name[2:3]) + name[3:] // X-A1
		}
	}
	return dst, ok
}

// unlisted is a subject that cannot list names.
type unlisted struct{ rules.Subject }

func TestManyNamesAgreeWithNaiveMatcher(t *testing.T) {
	kinds := []headgate.AttributeKind{headgate.AttrHeader, headgate.AttrCookie, headgate.AttrQuery, headgate.AttrDescriptor}
	const seeds = 300 / racing.Slower
	for seed := range uint64(seeds) {
		s := rand.New(rand.NewPCG(seed, 4))
		draw := func() headgate.Attribute {
			return headgate.Attribute{Kind: pick(s, kinds...), Name: fmt.Sprint("x-a", s.IntN(30))}
		}
		var list []rules.Rule
		for i := range 200 {
			list = append(list, ruleOn(i, draw(), pick(s, "gold", "*", "g*", "*old", "*l*", "g*d")))
		}
		set := compile(t, list)
		slow := naive{list: list}
		for range 20 {
			request := rules.Attributes{}
			for range s.IntN(60) {
				request[draw()] = pick(s, "gold", "old", "silver", "good")
			}
			want := slow.match(slashed{request})
			for _, subject := range []rules.Subject{request, listed{request}, unlisted{request}} {
				var got []string
				for _, m := range set.Match(subject, nil) {
					got = append(got, m.Rule.ID)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%T %v matches\n got %v\nwant %v", subject, request, got, want)
				}
			}
		}
	}
}

// A text that a value repeats many times finds the same rules each time.
func TestRepeatedTextIsEvaluatedBoundedly(t *testing.T) {
	var list []rules.Rule
	for i := range 100 {
		r := ruleOn(i, header("x-a"), "*bot*")
		test := rules.Test{Attribute: header(fmt.Sprint("x-b", i)), Values: []string{"b"}}
		r.When.Not = []rules.Condition{{Tests: []rules.Test{test}}}
		list = append(list, r)
	}
	reads := 0
	request := &countingSubject{rules.Attributes{header("x-a"): strings.Repeat("bot", 1000)}, &reads}
	got := compile(t, list).Match(request, make([]match.Result, 0, 256))
	if len(got) != 100 {
		t.Errorf("%d rules match, want 100", len(got))
	}
	if reads > 1000 {
		t.Errorf("the request's attributes were read %d times, want fewer than 1,000", reads)
	}
}

// countingSubject counts the calls of Get.
type countingSubject struct {
	rules.Attributes
	reads *int
}

func (c *countingSubject) Get(a headgate.Attribute) (string, bool) {
	*c.reads++
	return c.Attributes.Get(a)
}
