package match

import (
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A normalization is a set of changes that a rule makes to the value of an attribute before it uses the value.
type normalization uint8

const (
	normLowerCase normalization = 1 << iota // convert to lower case, except for the digits of escapes
	normTrimSlash                           // remove a trailing slash
	normMethod                              // convert a method to upper case
	normHeadAsGet                           // replace the method HEAD by GET, in a key
)

// normMark is in the names of attributes with a normalization. A rule that treats several paths as equal does not use
// the attribute path, but an attribute whose value is the normalized path. The name of that attribute is the original
// name, normMark and the normalization. Names of request attributes never contain normMark.
const normMark = "\x00"

// normalizationOf returns the normalization that a rule applies to paths, or 0 if it applies none.
func normalizationOf(r *rules.Rule) normalization {
	var norm normalization
	if ignores(r, r.Case) {
		norm |= normLowerCase
	}
	if ignores(r, r.TrailingSlash) {
		norm |= normTrimSlash
	}
	return norm
}

// ignores reports whether a rule ignores a difference between paths. s is the rule's setting for that difference.
func ignores(r *rules.Rule, s rules.Strictness) bool {
	return s == rules.StrictIgnore || s == rules.StrictDefault && !r.Unlimited
}

// normalizedAttribute returns the attribute that a rule with a normalization uses in place of a request's attribute.
func normalizedAttribute(a headgate.Attribute, norm normalization) headgate.Attribute {
	switch {
	case a.Kind == headgate.AttrPath && norm != 0:
		a.Name = normMark + string(rune(norm))
	case a.Kind == headgate.AttrSegment && norm&normLowerCase != 0:
		a.Name += normMark + string(rune(normLowerCase))
	}
	return a
}

// normalizedKey returns the attributes that a rule counts by. HEAD counts as GET.
func normalizedKey(key []headgate.Attribute, norm normalization) []headgate.Attribute {
	normalized := slices.Clone(key)
	for i, a := range normalized {
		normalized[i] = normalizedAttribute(a, norm)
		if a.Kind == headgate.AttrMethod {
			normalized[i].Name = normMark + string(rune(normHeadAsGet))
		}
	}
	return normalized
}

// A source is a request attribute and the normalization of its value.
type source struct {
	attribute headgate.Attribute
	norm      normalization
}

// sourceOf returns the source of an attribute, whose name may contain normMark.
func sourceOf(a headgate.Attribute) source {
	src := source{attribute: a}
	switch a.Kind {
	case headgate.AttrPath, headgate.AttrSegment, headgate.AttrMethod:
		name, norm, ok := strings.Cut(a.Name, normMark)
		src.attribute.Name = name
		if ok {
			src.norm = normalization(norm[0])
		}
		if a.Kind == headgate.AttrMethod {
			src.norm |= normMethod
		}
	}
	return src
}

func sourcesOf(attributes []headgate.Attribute) []source {
	list := make([]source, len(attributes))
	for i, a := range attributes {
		list[i] = sourceOf(a)
	}
	return list
}

// appendTo appends the normalized value of a subject to a key. It allocates nothing for a path.
func (src *source) appendTo(dst []byte, s rules.Subject) []byte {
	value, _ := s.Get(src.attribute)
	lower := src.norm&normLowerCase != 0
	return appendValue(dst, (src.norm &^ normLowerCase).apply(value), lower)
}

// apply returns the normalized value.
func (norm normalization) apply(value string) string {
	if norm&normLowerCase != 0 {
		value = lowerPath(value)
	}
	if norm&normTrimSlash != 0 && len(value) > 1 && value[len(value)-1] == '/' {
		value = value[:len(value)-1]
	}
	if norm&normMethod != 0 {
		value = canonicalMethod(value)
	}
	if norm&normHeadAsGet != 0 && value == "HEAD" {
		value = "GET"
	}
	return value
}

// normalizedCondition returns the condition with normalized paths, and with HEAD added to each list that has GET. It
// returns c itself if nothing changes.
func normalizedCondition(c *rules.Condition, norm normalization) *rules.Condition {
	if !needsNormalizing(c, norm) {
		return c
	}
	normalized := c.Clone()
	normalize(&normalized, norm)
	return &normalized
}

func needsNormalizing(c *rules.Condition, norm normalization) bool {
	for i := range c.Tests {
		t := &c.Tests[i]
		if normalizedAttribute(t.Attribute, norm) != t.Attribute || t.Attribute.Kind == headgate.AttrMethod {
			return true
		}
	}
	needs := func(c rules.Condition) bool { return needsNormalizing(&c, norm) }
	return slices.ContainsFunc(c.Any, needs) || slices.ContainsFunc(c.All, needs) || slices.ContainsFunc(c.Not, needs)
}

func normalize(c *rules.Condition, norm normalization) {
	for i := range c.Tests {
		t := &c.Tests[i]
		if t.Attribute.Kind == headgate.AttrMethod {
			t.Values = withHead(t.Values)
			continue
		}
		if t.Attribute = normalizedAttribute(t.Attribute, norm); strings.Contains(t.Attribute.Name, normMark) {
			norms := sourceOf(t.Attribute).norm
			for j, value := range t.Values {
				t.Values[j] = norms.apply(value)
			}
		}
	}
	for _, list := range [][]rules.Condition{c.Any, c.All, c.Not} {
		for i := range list {
			normalize(&list[i], norm)
		}
	}
}

// withHead adds HEAD to a list of methods that has GET, because services treat HEAD as a GET without the body.
func withHead(methods []string) []string {
	isMethod := func(method string) bool {
		return slices.ContainsFunc(methods, func(m string) bool { return strings.EqualFold(m, method) })
	}
	if isMethod("GET") && !isMethod("HEAD") {
		return append(methods, "HEAD")
	}
	return methods
}

// canonicalMethod returns a method in upper case. Many services treat post as POST, so clients must not be able to
// evade a rule with post. canonicalMethod allocates nothing for the usual methods.
func canonicalMethod(method string) string {
	for i := range len(method) {
		if c := method[i]; c < 'A' || c > 'Z' {
			return upperMethod(method)
		}
	}
	return method
}

func upperMethod(method string) string {
	for _, usual := range [...]string{"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		if strings.EqualFold(method, usual) {
			return usual
		}
	}
	return strings.ToUpper(method)
}
