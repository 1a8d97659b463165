package identity

import (
	"net/url"
	"strconv"
	"strings"
)

// query returns the value of a query parameter. If there are several with this name, it returns the first, or with
// LastRepeated the last.
func (a *Attributes) query(name string) string {
	p := a.parameters(name)
	value, ok := p.next()
	if a.identifier.config.Repeated == LastRepeated {
		for last := value; ok; last, ok = p.next() {
			value = last
		}
	}
	return a.identifier.hashIfLong(trimAnySpace(value))
}

// parameters returns a scanner for the values of a parameter.
func (a *Attributes) parameters(name string) queryScanner {
	if a.url == nil || a.checkQuery() != nil {
		return queryScanner{}
	}
	return queryScanner{rest: a.url.RawQuery, name: name}
}

// checkQuery returns an error if the query is too long to search.
func (a *Attributes) checkQuery() error {
	if a.url != nil && len(a.url.RawQuery) > a.identifier.config.MaxQuery {
		return malformed("query", "of "+strconv.Itoa(len(a.url.RawQuery))+" bytes",
			"at most "+strconv.Itoa(a.identifier.config.MaxQuery))
	}
	return nil
}

// A queryScanner finds the values of a parameter in a query as url.ParseQuery does, without a map.
type queryScanner struct {
	rest, name string
	ambiguous  bool // a value was found or skipped that services read in different ways
}

// next returns the next value of the parameter. It skips values that only some services find.
func (p *queryScanner) next() (value string, ok bool) {
	for p.rest != "" {
		var part string
		part, p.rest, _ = strings.Cut(p.rest, "&")
		if strings.IndexByte(part, ';') >= 0 {
			p.ambiguous = p.ambiguous || p.hasPart(part)
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		if !equalsUnescaped(key, p.name) {
			continue
		}
		if strings.ContainsAny(value, "%+") {
			plain, err := url.QueryUnescape(value)
			if err != nil {
				p.ambiguous = true
				continue
			}
			value = plain
			p.ambiguous = p.ambiguous || hasControl(value)
		}
		return value, true
	}
	return "", false
}

// hasPart reports whether a service that splits at semicolons finds the parameter in a part. Other services read
// semicolons as part of a value, or skip parts with semicolons, as next does.
func (p *queryScanner) hasPart(part string) bool {
	for piece := range strings.SplitSeq(part, ";") {
		if key, _, _ := strings.Cut(piece, "="); equalsUnescaped(key, p.name) {
			return true
		}
	}
	return false
}

// equalsUnescaped reports whether the text, which may be escaped, equals want.
func equalsUnescaped(text, want string) bool {
	for want != "" {
		if text == "" {
			return false
		}
		c := text[0]
		switch c {
		case '+':
			c = ' '
		case '%':
			var ok bool
			if c, ok = unhex(text); !ok {
				return false
			}
			text = text[2:]
		}
		if c != want[0] {
			return false
		}
		text, want = text[1:], want[1:]
	}
	return text == ""
}

// unhex returns the byte of an escape such as %2F at the beginning of the text.
func unhex(text string) (byte, bool) {
	if len(text) < 3 {
		return 0, false
	}
	high, low := hexDigit(text[1]), hexDigit(text[2])
	return high<<4 | low&0xf, high < 16 && low < 16
}

// hexDigit returns the value of a hexadecimal digit, or 16 for any other character.
func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	default:
		return 16
	}
}
