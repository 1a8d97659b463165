package rules

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headgate/headgate"
)

// A Property is a fact about a client: a name such as plan and a value such as gold. Many clients may have the same
// one.
type Property struct {
	// Name is a lower-case letter, then letters, digits, '_' and '-', at most MaxPropertyName bytes. It must not resemble
	// the name of a request attribute, because a misspelled attribute would then silently become a property.
	Name string
	// Value is a text without control characters, at most MaxPropertyValue bytes.
	Value string
}

// ParseTested parses an attribute that a Test can test: a request attribute, or client.<name> for a property of the
// client. The error is a *headgate.InputError.
func ParseTested(text string) (headgate.Attribute, error) {
	if name, ok := strings.CutPrefix(text, clientPrefix); ok {
		if want := wantProperty(name); want != "" {
			return headgate.Attribute{}, badAttribute(text, "client.<name>, with the name of a property: "+want)
		}
		return headgate.Attribute{Kind: headgate.AttrClient, Name: name}, nil
	}
	a, err := headgate.ParseAttribute(text)
	if want := wantFrom(err); strings.HasPrefix(want, attributeListPrefix) {
		return a, badAttribute(text, want+", or client.<name>")
	}
	return a, err
}

// ParseClientAttribute parses a key of the attributes of a client in a rules file. The key is a request attribute,
// which identifies the client, or the name of one of its properties. The error is a *headgate.InputError.
func ParseClientAttribute(text string) (a headgate.Attribute, isProperty bool, err error) {
	want := wantProperty(text)
	if want == "" {
		return headgate.Attribute{}, true, nil
	}
	a, err = headgate.ParseAttribute(text)
	if err == nil {
		return a, false, nil
	}
	if name, ok := strings.CutPrefix(text, clientPrefix); ok {
		return a, false, badAttribute(text, name+" without client.: it is a property of this client")
	}
	if wantAttribute := wantFrom(err); strings.HasPrefix(wantAttribute, attributeListPrefix) && want == wantPropertyName {
		want = wantAttribute + "; or the name of a property: " + want
	} else if !strings.HasPrefix(wantAttribute, attributeListPrefix) && strings.Contains(text, ".") {
		want = wantAttribute
	}
	return a, false, badAttribute(text, want)
}

const (
	clientPrefix        = "client."
	attributeListPrefix = "ip, " // beginning of the list of all attributes in an error of headgate.ParseAttribute
)

var wantPropertyName = "a lower-case letter, then letters, digits, '_' and '-', at most " +
	strconv.Itoa(MaxPropertyName) + " bytes"

func badAttribute(text, want string) error {
	return &headgate.InputError{Err: headgate.ErrInvalidCheck, Field: "attribute", Value: Quote(text), Want: want}
}

// wantFrom returns the description of valid values from an error, or "" if there is no error.
func wantFrom(err error) string {
	if err == nil {
		return ""
	}
	_, want := Explain(err)
	return want
}

// wantProperty returns "" if name is a valid name of a property, and otherwise a description of valid names.
func wantProperty(name string) string {
	if strings.IndexByte(name, '.') >= 0 || name == "" {
		return wantPropertyName
	}
	for kind := headgate.AttrIP; kind <= headgate.AttrClient; kind++ {
		word := kind.String()
		if !resembles(name, word) {
			continue
		}
		switch {
		case kind == headgate.AttrClient:
			return "another name: client.<name> refers to properties"
		case kind.Named():
			word += ".<name>"
		}
		return word + ", or another name for a property"
	}
	if len(name) > MaxPropertyName || name[0] < 'a' || name[0] > 'z' {
		return wantPropertyName
	}
	for i := range len(name) {
		if c := name[i]; !isAlphanumeric(c) && c != '_' && c != '-' {
			return wantPropertyName
		}
	}
	return ""
}

// resembles reports whether a name looks like a misspelled word, ignoring case. It does if both are equal, or differ in
// one inserted, missing or replaced letter after the first letter. A word of up to three letters must be equal: vip
// does not resemble ip.
func resembles(name, word string) bool {
	if len(word) < 4 || lowerByte(name[0]) != word[0] {
		return strings.EqualFold(name, word)
	}
	longer, shorter := name, word
	if len(longer) < len(shorter) {
		longer, shorter = shorter, longer
	}
	if len(longer)-len(shorter) > 1 {
		return false
	}
	at := 0
	for at < len(shorter) && lowerByte(longer[at]) == lowerByte(shorter[at]) {
		at++
	}
	if at == len(shorter) {
		return true
	}
	if len(longer) == len(shorter) {
		return strings.EqualFold(longer[at+1:], shorter[at+1:])
	}
	return strings.EqualFold(longer[at+1:], shorter[at:])
}

func lowerByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// validateProperties adds the problems of the properties of a client to p.
func (c *Client) validateProperties(at *location, p *problems) {
	for i := range c.Properties {
		property := &c.Properties[i]
		here := at
		if property.Name != "" {
			here = at.field(property.Name)
		}
		if want := wantProperty(property.Name); want != "" {
			p.add(here, Quote(property.Name), want)
		}
		if slices.ContainsFunc(c.Properties[:i], func(o Property) bool { return o.Name == property.Name }) {
			p.add(here, "", "each property once")
		}
		switch value := property.Value; {
		case value == "" && property.Name == "":
			p.add(here, `""`, "a value")
		case value == "":
			p.add(here, `""`, "a value, or no "+property.Name+" at all")
		case len(value) > MaxPropertyValue || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
			p.add(here, Quote(value), "at most "+strconv.Itoa(MaxPropertyValue)+" bytes of UTF-8 without control characters")
		}
	}
	if n := len(c.Properties); n > MaxProperties {
		p.add(at, strconv.Itoa(n)+" properties", "at most "+strconv.Itoa(MaxProperties))
	}
}

func sortedProperties(list []Property) []Property {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b Property) int { return strings.Compare(a.Name, b.Name) })
	return sorted
}
