package identity

import (
	"net/url"
	"strings"

	"github.com/headgate/headgate"
)

// AppendNames implements rules.NameLister: it appends the names of all headers, cookies, query parameters or descriptor
// entries for which Get returns a value. The list may include names for which it does not. ok is false for other kinds
// of attributes.
func (a *Attributes) AppendNames(dst []string, kind headgate.AttributeKind) (names []string, ok bool) {
	if !a.hasRequest() {
		for i := range a.pairs {
			if attr := a.pairs[i].attr; attr.Kind == kind {
				dst = append(dst, attr.Name)
			}
		}
		return dst, true
	}
	switch kind {
	case headgate.AttrHeader:
		dst = append(dst, nameHost.lower) // net/http does not have it in the header
		for name := range a.header {
			dst = append(dst, name)
		}
	case headgate.AttrCookie:
		lines, _ := a.cookies()
		for _, line := range lines {
			for part := range strings.SplitSeq(line, ";") {
				name, _, _ := strings.Cut(part, "=")
				dst = append(dst, trimAnySpace(name))
			}
		}
	case headgate.AttrQuery:
		for rest := a.parameters("").rest; rest != ""; {
			var part string
			part, rest, _ = strings.Cut(rest, "&")
			name, _, _ := strings.Cut(part, "=")
			if plain, err := url.QueryUnescape(name); err == nil { // otherwise Get does not find it
				dst = append(dst, plain)
			}
		}
	case headgate.AttrDescriptor:
	default:
		return dst, false
	}
	return dst, true
}
