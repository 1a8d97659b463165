package match_test

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A naive matcher follows the documentation, rule by rule, with regular expressions. It shares no code with the matcher
// that it is compared with.
type naive struct {
	list        []rules.Rule
	expressions map[string]*regexp.Regexp
}

// match returns the ids of the rules that match, in order.
func (n *naive) match(s rules.Subject) []string {
	type place struct{ priority, at int }
	var found []place
	for i := range n.list {
		r := &n.list[i]
		space, named := s.Get(headgate.Attribute{Kind: headgate.AttrNamespace})
		if !r.Disabled && (r.Namespace == "" || !named || space == r.Namespace) && n.holds(&r.When, s, r) {
			found = append(found, place{r.Priority, i})
		}
	}
	slices.SortFunc(found, func(a, b place) int {
		if a.priority != b.priority {
			return b.priority - a.priority
		}
		return a.at - b.at
	})
	var ids []string
	for _, p := range found {
		ids = append(ids, n.list[p.at].ID)
	}
	return ids
}

func (n *naive) holds(c *rules.Condition, s rules.Subject, r *rules.Rule) bool {
	for _, t := range c.Tests {
		value, ok := s.Get(t.Attribute)
		if t.Attribute == method {
			value = strings.ToUpper(value)
		}
		if !ok || !slices.ContainsFunc(t.Values, func(pattern string) bool {
			if t.Attribute == path {
				return n.fits(t.Attribute.Kind, usualPath(r, pattern), "/"+usualPath(r, value[1:])) // value is slashed
			}
			return n.fits(t.Attribute.Kind, pattern, value)
		}) {
			return false
		}
	}
	holds := func(c rules.Condition) bool { return n.holds(&c, s, r) }
	if len(c.Any) > 0 && !slices.ContainsFunc(c.Any, holds) {
		return false
	}
	for _, below := range c.All {
		if !holds(below) {
			return false
		}
	}
	return !slices.ContainsFunc(c.Not, holds)
}

// usualPath returns a path or a pattern of one in the form in which a rule compares it.
func usualPath(r *rules.Rule, text string) string {
	ignores := func(s rules.Strictness) bool {
		return s == rules.StrictIgnore || s == rules.StrictDefault && !r.Unlimited
	}
	if ignores(r.Case) {
		text = strings.ToLower(text) // no drawn path has escapes
	}
	if ignores(r.TrailingSlash) && len(text) > 1 {
		text = strings.TrimSuffix(text, "/")
	}
	return text
}

func (n *naive) fits(kind headgate.AttributeKind, pattern, value string) bool {
	if pattern == "*" {
		return true
	}
	if kind == headgate.AttrIP {
		return inNetwork(pattern, value)
	}
	key := kind.String() + pattern
	if n.expressions == nil {
		n.expressions = map[string]*regexp.Regexp{}
	}
	e := n.expressions[key]
	if e == nil {
		e = expression(kind, pattern)
		n.expressions[key] = e
	}
	return e.MatchString(value)
}

func inNetwork(pattern, value string) bool {
	network := func(text string) (netip.Prefix, bool) {
		if net, err := netip.ParsePrefix(text); err == nil {
			return net.Masked(), true
		}
		addr, err := netip.ParseAddr(text)
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), err == nil
	}
	outer, ok1 := network(pattern)
	inner, ok2 := network(value)
	return ok1 && ok2 && outer.Contains(inner.Addr()) && outer.Bits() <= inner.Bits()
}

// expression turns a pattern into a regular expression.
func expression(kind headgate.AttributeKind, pattern string) *regexp.Regexp {
	switch kind {
	case headgate.AttrHost:
		pattern = strings.ToLower(pattern)
		bare := pattern
		if n := len(pattern); n > 2 && pattern[0] == '[' && pattern[n-1] == ']' {
			bare = pattern[1 : n-1]
		}
		if addr, err := netip.ParseAddr(bare); err == nil && addr.Is6() {
			pattern = addr.String()
		}
	case headgate.AttrMethod:
		pattern = strings.ToUpper(pattern)
	}
	run := ".*"
	if kind == headgate.AttrPath {
		run = "[^/]*"
	}
	parts := func(text string) string {
		var b strings.Builder
		for i := 0; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
				b.WriteString(regexp.QuoteMeta(text[i : i+1]))
			case '*':
				b.WriteString(run)
			default:
				b.WriteString(regexp.QuoteMeta(text[i : i+1]))
			}
		}
		return b.String()
	}
	if kind != headgate.AttrPath {
		return regexp.MustCompile(`(?s)^` + parts(pattern) + `$`)
	}
	// Each segment has its slash in front, and so does the path: then ** is any number of these.
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for segment := range strings.SplitSeq(pattern, "/") {
		if segment == "**" {
			b.WriteString(`(?:/[^/]*)*`)
		} else {
			b.WriteString("/" + parts(segment))
		}
	}
	b.WriteString(`$`)
	return regexp.MustCompile(b.String())
}

// slashed gives a path the slash in front that expression expects.
type slashed struct{ rules.Subject }

func (s slashed) Get(a headgate.Attribute) (string, bool) {
	value, ok := s.Subject.Get(a)
	if ok && a.Kind == headgate.AttrPath {
		value = "/" + value
	}
	return value, ok
}
