package rules

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
	"unique"

	"github.com/headgate/headgate"
)

// A Property is something that is known of a client: plan gold. Many clients may have the same.
type Property struct {
	// Name is a lower-case letter, then letters, digits, '_' and '-', at most MaxPropertyName. It is not that of an attribute of
	// requests, nor is it mistaken for one.
	Name string
	// Value is a text without control characters, at most MaxPropertyValue.
	Value string
}

// ParseTested reads what a Test of a Condition looks at: an attribute of requests, or client.<name>, a property of the client.
// The error is a *headgate.InputError.
func ParseTested(text string) (headgate.Attribute, error) {
	if name, ok := strings.CutPrefix(text, clientDot); ok {
		if want := wantProperty(name); want != "" {
			return headgate.Attribute{}, badAttribute(text, "client.<name>, with the name of a property: "+want)
		}
		return headgate.Attribute{Kind: headgate.AttrClient, Name: name}, nil
	}
	a, err := headgate.ParseAttribute(text)
	if want := wantOf(err); strings.HasPrefix(want, firstKnown) {
		return a, badAttribute(text, want+", or client.<name>")
	}
	return a, err
}

// ParseClientAttribute reads a name among the attributes of a client in a file: that of an attribute of requests, or of a property. The
// error is a *headgate.InputError.
func ParseClientAttribute(text string) (a headgate.Attribute, property bool, err error) {
	want := wantProperty(text)
	if want == "" {
		return headgate.Attribute{}, true, nil
	}
	a, err = headgate.ParseAttribute(text)
	if err == nil {
		return a, false, nil
	}
	if name, ok := strings.CutPrefix(text, clientDot); ok {
		return a, false, badAttribute(text, name+" alone: it is the client's own")
	}
	if known := wantOf(err); strings.HasPrefix(known, firstKnown) && want == wantPropertyName {
		want = known + "; or the name of a property: " + want
	} else if !strings.HasPrefix(known, firstKnown) && strings.Contains(text, ".") {
		want = known
	}
	return a, false, badAttribute(text, want)
}

const (
	clientDot  = "client."
	firstKnown = "ip, " // how the list of all attributes begins

	wantPropertyName = "a lower-case letter, then letters, digits, '_' and '-', at most 64 bytes"
)

func badAttribute(text, want string) error {
	return &headgate.InputError{Err: headgate.ErrInvalidCheck, Field: "attribute", Value: Quote(text), Want: want}
}

// wantOf returns what would have been right, empty for no error.
func wantOf(err error) string {
	if err == nil {
		return ""
	}
	_, want := Explain(err)
	return want
}

// wantProperty says what would be right instead of the name of a property, empty if it is one. It allocates nothing then.
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
			return "another name: client is where properties are asked for"
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

// resembles tells whether a name is a word, in whatever case, but for one letter more, less or other behind the first. A short word
// is too near to others for that: vip is not ip.
func resembles(name, word string) bool {
	if len(word) < 4 || lowered(name[0]) != word[0] {
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
	for at < len(shorter) && lowered(longer[at]) == lowered(shorter[at]) {
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

func lowered(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// validateProperties says what is wrong with the properties of a client.
func (c *Client) validateProperties(at *place, p *problems) {
	for i := range c.Properties {
		given := &c.Properties[i]
		here := at.field(given.Name)
		if given.Name == "" {
			here = at
		}
		if want := wantProperty(given.Name); want != "" {
			p.add(here, Quote(given.Name), want)
		}
		if slices.ContainsFunc(c.Properties[:i], func(o Property) bool { return o.Name == given.Name }) {
			p.add(here, "", "each property once")
		}
		switch value := given.Value; {
		case value == "":
			p.add(here, `""`, "a value, or no "+given.Name+" at all")
		case len(value) > MaxPropertyValue || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
			p.add(here, Quote(value), "at most "+strconv.Itoa(MaxPropertyValue)+" bytes of UTF-8 without control characters")
		}
	}
	if n := len(c.Properties); n > MaxProperties {
		p.add(at, strconv.Itoa(n)+" properties", "at most "+strconv.Itoa(MaxProperties))
	}
}

// properties are those of a client in one text, in the order of their names: "plan=gold\x00tier=2\x00". Clients who have the same
// share it.
type properties string

func newProperties(list []Property) properties {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	for _, p := range list {
		b.WriteString(p.Name + "=" + p.Value + "\x00")
	}
	return properties(unique.Make(b.String()).Value())
}

// get returns the value of a property, and whether there is one.
func (p properties) get(name string) (string, bool) {
	for rest := string(p); rest != ""; {
		var one string
		one, rest, _ = strings.Cut(rest, "\x00")
		if len(one) > len(name) && one[len(name)] == '=' && one[:len(name)] == name {
			return one[len(name)+1:], true
		}
	}
	return "", false
}

// list returns them one by one.
func (p properties) list() []Property {
	var made []Property
	for rest := string(p); rest != ""; {
		var one string
		one, rest, _ = strings.Cut(rest, "\x00")
		name, value, _ := strings.Cut(one, "=")
		made = append(made, Property{name, value})
	}
	return made
}

func sortedProperties(list []Property) []Property {
	made := slices.Clone(list)
	slices.SortFunc(made, func(a, b Property) int { return strings.Compare(a.Name, b.Name) })
	return made
}
