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
	StrictDefault Strictness = iota // like StrictExact, but Doubts warns about it
	StrictExact                     // the paths are different
	StrictIgnore                    // the paths are equal
)

// A rule that treats several paths as equal uses an attribute of its own: the normalized path. The name of that
// attribute lists the normalizations, behind a mark that no request attribute contains.
const (
	normLowerCase = 'c' // lower case, except for the digits of escapes
	normTrimSlash = 's' // no trailing slash
	normHeadAsGet = 'h' // for a method in a key: HEAD becomes GET
	normMark      = "\x00"
)

// normalization returns the normalizations that a rule applies to paths, empty if it applies none.
func (r *Rule) normalization() string {
	norm := ""
	if r.Case == StrictIgnore {
		norm += string(normLowerCase)
	}
	if r.TrailingSlash == StrictIgnore {
		norm += string(normTrimSlash)
	}
	return norm
}

// normalizedAttribute returns the attribute that a rule uses in place of a request's attribute.
func normalizedAttribute(a headgate.Attribute, norm string) headgate.Attribute {
	switch {
	case a.Kind == headgate.AttrPath && norm != "":
		a.Name = normMark + norm
	case a.Kind == headgate.AttrSegment && strings.IndexByte(norm, normLowerCase) >= 0:
		a.Name += normMark + string(normLowerCase)
	}
	return a
}

// normalizedKey returns the attributes that a rule counts by. HEAD counts as GET.
func normalizedKey(key []headgate.Attribute, norm string) []headgate.Attribute {
	normalized := slices.Clone(key)
	for i, a := range normalized {
		if normalized[i] = normalizedAttribute(a, norm); a.Kind == headgate.AttrMethod {
			normalized[i].Name = normMark + string(normHeadAsGet)
		}
	}
	return normalized
}

// originalAttribute returns the request attribute behind a normalized one, and the normalizations.
func originalAttribute(a headgate.Attribute) (headgate.Attribute, string) {
	switch a.Kind {
	case headgate.AttrPath, headgate.AttrSegment, headgate.AttrMethod:
		var norm string
		a.Name, norm, _ = strings.Cut(a.Name, normMark)
		return a, norm
	default:
		return a, ""
	}
}

// normalizeValue applies normalizations to a value.
func normalizeValue(value, norm string) string {
	for i := range len(norm) {
		switch norm[i] {
		case normLowerCase:
			value = lowerPath(value)
		case normTrimSlash:
			if len(value) > 1 && value[len(value)-1] == '/' {
				value = value[:len(value)-1]
			}
		case normHeadAsGet:
			if value == "HEAD" {
				value = "GET"
			}
		}
	}
	return value
}

// lowerPath returns a path in lower case, except for the digits of escapes, which have one form. It allocates nothing
// if the path is unchanged.
func lowerPath(path string) string {
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '%':
			i += 2
		case c >= 'A' && c <= 'Z':
			return lowerFrom(path, i)
		}
	}
	return path
}

func lowerFrom(path string, i int) string {
	lowered := []byte(path)
	for ; i < len(lowered); i++ {
		switch c := lowered[i]; {
		case c == '%':
			i += 2
		case c >= 'A' && c <= 'Z':
			lowered[i] = c + 'a' - 'A'
		}
	}
	return string(lowered)
}

// normalizedCondition returns the condition with normalized paths, and with HEAD wherever GET is. It returns c itself
// if nothing changes.
func normalizedCondition(c *Condition, norm string) *Condition {
	if !needsNormalizing(c, norm) {
		return c
	}
	normalized := c.clone()
	normalize(&normalized, norm)
	return &normalized
}

func needsNormalizing(c *Condition, norm string) bool {
	for i := range c.Tests {
		t := &c.Tests[i]
		if normalizedAttribute(t.Attribute, norm) != t.Attribute || t.Attribute.Kind == headgate.AttrMethod {
			return true
		}
	}
	below := func(c Condition) bool { return needsNormalizing(&c, norm) }
	return slices.ContainsFunc(c.Any, below) || slices.ContainsFunc(c.All, below) || slices.ContainsFunc(c.Not, below)
}

func normalize(c *Condition, norm string) {
	for i := range c.Tests {
		t := &c.Tests[i]
		if t.Attribute.Kind == headgate.AttrMethod {
			t.Values = withHead(t.Values)
			continue
		}
		if t.Attribute = normalizedAttribute(t.Attribute, norm); strings.Contains(t.Attribute.Name, normMark) {
			_, norms := originalAttribute(t.Attribute)
			for j, value := range t.Values {
				t.Values[j] = normalizeValue(value, norms)
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
