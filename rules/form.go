package rules

import (
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

// Strictness says whether a rule tells paths apart that many services take for the same.
type Strictness uint8

// How strict a rule is.
const (
	StrictDefault Strictness = iota // as StrictExact, and Doubts warns of it
	StrictExact                     // they are different paths
	StrictIgnore                    // they are the same path
)

// A rule that takes several paths for one looks at an attribute of its own: the path in another form. The name of such an
// attribute says which form. No attribute of a request has a name like that.
const (
	formCase  = 'c' // in lower case, but for the digits of escapes
	formSlash = 's' // without a slash at the end
	formHead  = 'h' // of a method in a key: HEAD is GET
	formMark  = "\x00"
)

// form returns the form in which a rule looks at paths, empty if it looks at them as they are.
func (r *Rule) form() string {
	form := ""
	if r.Case == StrictIgnore {
		form += string(formCase)
	}
	if r.TrailingSlash == StrictIgnore {
		form += string(formSlash)
	}
	return form
}

// formedAttribute returns the attribute that a rule looks at in place of one of a request.
func formedAttribute(a headgate.Attribute, form string) headgate.Attribute {
	switch {
	case a.Kind == headgate.AttrPath && form != "":
		a.Name = formMark + form
	case a.Kind == headgate.AttrSegment && strings.IndexByte(form, formCase) >= 0:
		a.Name += formMark + string(formCase)
	}
	return a
}

// formedKey returns the attributes of a key as a rule counts by them. HEAD counts as GET.
func formedKey(key []headgate.Attribute, form string) []headgate.Attribute {
	made := slices.Clone(key)
	for i, a := range made {
		if made[i] = formedAttribute(a, form); a.Kind == headgate.AttrMethod {
			made[i].Name = formMark + string(formHead)
		}
	}
	return made
}

// unformed returns the attribute of a request that an attribute is a form of, and the form.
func unformed(a headgate.Attribute) (headgate.Attribute, string) {
	switch a.Kind {
	case headgate.AttrPath, headgate.AttrSegment, headgate.AttrMethod:
		var form string
		a.Name, form, _ = strings.Cut(a.Name, formMark)
		return a, form
	default:
		return a, ""
	}
}

// inForm returns a value of an attribute in a form.
func inForm(value, form string) string {
	for i := range len(form) {
		switch form[i] {
		case formCase:
			value = lowerPath(value)
		case formSlash:
			if len(value) > 1 && value[len(value)-1] == '/' {
				value = value[:len(value)-1]
			}
		case formHead:
			if value == "HEAD" {
				value = "GET"
			}
		}
	}
	return value
}

// lowerPath returns a path in lower case, but for the digits of escapes, which have one form. It allocates nothing for one
// that is so already.
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
	made := []byte(path)
	for ; i < len(made); i++ {
		switch c := made[i]; {
		case c == '%':
			i += 2
		case c >= 'A' && c <= 'Z':
			made[i] = c + 'a' - 'A'
		}
	}
	return string(made)
}

// formed returns the condition by which a rule of a form is matched: its paths in that form, and HEAD wherever GET is. It is
// the condition itself if there is nothing to change.
func formed(c *Condition, form string) *Condition {
	if !needsForm(c, form) {
		return c
	}
	made := c.clone()
	setForm(&made, form)
	return &made
}

func needsForm(c *Condition, form string) bool {
	for i := range c.Tests {
		t := &c.Tests[i]
		if formedAttribute(t.Attribute, form) != t.Attribute || t.Attribute.Kind == headgate.AttrMethod {
			return true
		}
	}
	below := func(c Condition) bool { return needsForm(&c, form) }
	return slices.ContainsFunc(c.Any, below) || slices.ContainsFunc(c.All, below) || slices.ContainsFunc(c.Not, below)
}

func setForm(c *Condition, form string) {
	for i := range c.Tests {
		t := &c.Tests[i]
		if t.Attribute.Kind == headgate.AttrMethod {
			t.Values = withHead(t.Values)
			continue
		}
		if t.Attribute = formedAttribute(t.Attribute, form); strings.Contains(t.Attribute.Name, formMark) {
			_, of := unformed(t.Attribute)
			for j, value := range t.Values {
				t.Values[j] = inForm(value, of)
			}
		}
	}
	for _, list := range [][]Condition{c.Any, c.All, c.Not} {
		for i := range list {
			setForm(&list[i], form)
		}
	}
}

// withHead adds HEAD to methods with GET: services answer it as they answer GET, without the body.
func withHead(methods []string) []string {
	is := func(method string) bool {
		return slices.ContainsFunc(methods, func(m string) bool { return strings.EqualFold(m, method) })
	}
	if is("GET") && !is("HEAD") {
		return append(methods, "HEAD")
	}
	return methods
}
