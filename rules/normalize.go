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

// value returns the normalized value of a subject.
func (from *source) value(s Subject) string {
	value, _ := s.Get(from.attribute)
	if from.norm != 0 {
		value = from.norm.apply(value)
	}
	return value
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

// lowerPath returns a path in lower case, except for the digits of escapes, which have one form. It allocates nothing
// if the path is unchanged.
func lowerPath(path string) string {
	if len(path) < 8 {
		for i := range len(path) {
			if c := path[i]; c >= 'A' && c <= 'Z' {
				return lowerBytes(path)
			}
		}
		return path
	}
	found := upperCase(path[len(path)-8:])
	for rest := path; len(rest) > 8; rest = rest[8:] {
		found |= upperCase(rest)
	}
	if found != 0 {
		return lowerBytes(path)
	}
	return path
}

// upperCase returns a bit for each of the first eight bytes that is an ASCII letter in upper case.
func upperCase(s string) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	eight := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	low := eight &^ high
	return (low + (0x80-'A')*ones) &^ (low + (0x80-'Z'-1)*ones) &^ eight & high
}

// lowerBytes is lowerPath byte by byte. The digits of escapes are in upper case.
func lowerBytes(path string) string {
	i := 0
	for ; i < len(path); i++ {
		if c := path[i]; c == '%' {
			i += 2
		} else if c >= 'A' && c <= 'Z' {
			break
		}
	}
	if i >= len(path) {
		return path
	}
	var lowered strings.Builder
	lowered.Grow(len(path))
	lowered.WriteString(path[:i])
	for ; i < len(path); i++ {
		switch c := path[i]; {
		case c == '%':
			end := min(i+3, len(path))
			lowered.WriteString(path[i:end])
			i = end - 1
		case c >= 'A' && c <= 'Z':
			lowered.WriteByte(c + 'a' - 'A')
		default:
			lowered.WriteByte(c)
		}
	}
	return lowered.String()
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
