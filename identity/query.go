package identity

import (
	"net/url"
	"strconv"
	"strings"
)

// query returns the value of a parameter: of several with this name the first, or the last if Config.Repeated says so.
func (a *Attributes) query(name string) string {
	p := a.parameters(name)
	value, ok := p.next()
	if a.id.config.Repeated == LastRepeated {
		for last := value; ok; last, ok = p.next() {
			value = last
		}
	}
	return a.id.bound(trimSpace(value))
}

// parameters walks the values of a parameter in the order in which they are sent.
func (a *Attributes) parameters(name string) parameters {
	if a.url == nil || a.checkQuery() != nil {
		return parameters{}
	}
	return parameters{rest: a.url.RawQuery, name: name}
}

// checkQuery reports a query that is too long to be looked at.
func (a *Attributes) checkQuery() error {
	if a.url != nil && len(a.url.RawQuery) > a.id.config.MaxQuery {
		return malformed("query", "of "+strconv.Itoa(len(a.url.RawQuery))+" bytes", "at most "+strconv.Itoa(a.id.config.MaxQuery))
	}
	return nil
}

// parameters reads a query as url.ParseQuery does, without making a map of it.
type parameters struct {
	rest, name string
	odd        bool // services read a value in different ways, or read one that was left out
}

func (p *parameters) next() (value string, ok bool) {
	for p.rest != "" {
		var part string
		part, p.rest, _ = strings.Cut(p.rest, "&")
		if strings.IndexByte(part, ';') >= 0 {
			p.odd = p.odd || p.isIn(part)
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		if !sameUnescaped(key, p.name) {
			continue
		}
		if strings.ContainsAny(value, "%+") {
			plain, err := url.QueryUnescape(value)
			if err != nil {
				p.odd = true
				continue
			}
			value = plain
			p.odd = p.odd || hasControl(value)
		}
		return value, true
	}
	return "", false
}

// isIn reports whether the parameter is there for services that end parameters at semicolons. For others they are part of a value,
// or, as for us, of nothing.
func (p *parameters) isIn(part string) bool {
	for piece := range strings.SplitSeq(part, ";") {
		if key, _, _ := strings.Cut(piece, "="); sameUnescaped(key, p.name) {
			return true
		}
	}
	return false
}

// sameUnescaped reports whether the text, which may be escaped, means want.
func sameUnescaped(text, want string) bool {
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

// unhex returns the byte that an escape such as %2F means.
func unhex(text string) (byte, bool) {
	if len(text) < 3 {
		return 0, false
	}
	high, low := hexDigit(text[1]), hexDigit(text[2])
	return high<<4 | low&0xf, high < 16 && low < 16
}

// hexDigit returns what a digit is worth, or 16 if it is none.
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
