package rules

import (
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

// Strictness says whether a rule distinguishes paths that many services treat as equal.
type Strictness uint8

// The values of Strictness.
const (
	// StrictDefault is StrictIgnore, but StrictExact for a rule that is Unlimited: a limit covers every path that may
	// reach what it protects, an exemption only the paths that it names.
	StrictDefault Strictness = iota
	StrictExact              // the paths are different
	StrictIgnore             // the paths are equal
)

// A normalization is a set of changes that a rule makes to the value of an attribute before it uses the value.
type normalization uint8

const (
	normLowerCase normalization = 1 << iota // lower case, except for the digits of escapes
	normTrimSlash                           // no trailing slash
	normMethod                              // upper case, for all methods
	normHeadAsGet                           // for a method in a key: HEAD becomes GET
)

// normMark separates the name of an attribute from its normalization. A rule that treats several paths as equal uses an
// attribute of its own, the normalized path. No request attribute has the mark in its name.
const normMark = "\x00"

// normalization returns the normalization that a rule applies to paths, 0 if it applies none.
func (r *Rule) normalization() normalization {
	var norm normalization
	if r.ignores(r.Case) {
		norm |= normLowerCase
	}
	if r.ignores(r.TrailingSlash) {
		norm |= normTrimSlash
	}
	return norm
}

func (r *Rule) ignores(s Strictness) bool {
	return s == StrictIgnore || s == StrictDefault && !r.Unlimited
}

// normalizedAttribute returns the attribute that a rule uses in place of a request's attribute.
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
		if normalized[i] = normalizedAttribute(a, norm); a.Kind == headgate.AttrMethod {
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

// sourceOf returns the source of an attribute that may be normalized.
func sourceOf(a headgate.Attribute) source {
	from := source{attribute: a}
	switch a.Kind {
	case headgate.AttrPath, headgate.AttrSegment, headgate.AttrMethod:
		name, norm, ok := strings.Cut(a.Name, normMark)
		from.attribute.Name = name
		if ok {
			from.norm = normalization(norm[0])
		}
		if a.Kind == headgate.AttrMethod {
			from.norm |= normMethod
		}
	}
	return from
}

func sourcesOf(attributes []headgate.Attribute) []source {
	list := make([]source, len(attributes))
	for i, a := range attributes {
		list[i] = sourceOf(a)
	}
	return list
}

// appendTo appends the normalized value of a subject, as it stands in a key. It allocates nothing for a path.
func (from *source) appendTo(dst []byte, s Subject) []byte {
	value, _ := s.Get(from.attribute)
	if from.norm == 0 {
		return appendValue(dst, value)
	}
	if from.norm&normLowerCase == 0 || !hasUpperCase(value) {
		return appendValue(dst, from.norm.apply(value))
	}
	return appendLowered(dst, (from.norm &^ normLowerCase).apply(value))
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

// normalizedCondition returns the condition with normalized paths, and with HEAD wherever GET is. It returns c itself
// if nothing changes.
func normalizedCondition(c *Condition, norm normalization) *Condition {
	if !needsNormalizing(c, norm) {
		return c
	}
	normalized := c.clone()
	normalize(&normalized, norm)
	return &normalized
}

func needsNormalizing(c *Condition, norm normalization) bool {
	for i := range c.Tests {
		t := &c.Tests[i]
		if normalizedAttribute(t.Attribute, norm) != t.Attribute || t.Attribute.Kind == headgate.AttrMethod {
			return true
		}
	}
	below := func(c Condition) bool { return needsNormalizing(&c, norm) }
	return slices.ContainsFunc(c.Any, below) || slices.ContainsFunc(c.All, below) || slices.ContainsFunc(c.Not, below)
}

func normalize(c *Condition, norm normalization) {
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
	for _, list := range [][]Condition{c.Any, c.All, c.Not} {
		for i := range list {
			normalize(&list[i], norm)
		}
	}
}

// withHead adds HEAD to methods with GET, because services treat it as a GET without the body.
func withHead(methods []string) []string {
	is := func(method string) bool {
		return slices.ContainsFunc(methods, func(m string) bool { return strings.EqualFold(m, method) })
	}
	if is("GET") && !is("HEAD") {
		return append(methods, "HEAD")
	}
	return methods
}
