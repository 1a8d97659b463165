package identity

import (
	"net/url"
	"strconv"
	"strings"
)

// cookie returns the value of a cookie. If there are several with this name, it returns the first, because browsers
// send the most specific cookie first and most services read the first. With LastRepeated it returns the last.
func (a *Attributes) cookie(name string) string {
	lines, err := a.cookies()
	if err != nil {
		return ""
	}
	result := ""
	for _, line := range lines {
		c := cookieScanner{rest: line, name: name}
		for value, ok := c.next(); ok; value, ok = c.next() {
			if result = value; a.identifier.config.Repeated != LastRepeated {
				return a.identifier.hashIfLong(result)
			}
		}
	}
	return a.identifier.hashIfLong(result)
}

// cookies returns the lines of the Cookie header, or an error if they are too long to search. A request with this error
// is refused, because the service could find a cookie that the rules have not seen.
func (a *Attributes) cookies() ([]string, error) {
	lines := a.endToEndLines(nameCookie)
	size := 0
	for _, line := range lines {
		if size += len(line); size > a.identifier.config.MaxCookies {
			return nil, malformed("header Cookie", "", "at most "+strconv.Itoa(a.identifier.config.MaxCookies)+" bytes")
		}
	}
	return lines, nil
}

// A cookieScanner finds the values of a cookie in one line.
type cookieScanner struct {
	rest, name string
	ambiguous  bool // a value was found that services read in different ways
}

// next returns the next value of the cookie.
func (c *cookieScanner) next() (value string, ok bool) {
	for c.rest != "" {
		var part string
		part, c.rest, _ = strings.Cut(c.rest, ";")
		key, value, ok := strings.Cut(part, "=")
		if !ok || trimAnySpace(key) != c.name {
			continue
		}
		return c.decode(trimAnySpace(value)), true
	}
	return "", false
}

// decode removes quotes around the value of a cookie and decodes its escapes, as some services do. Otherwise a client
// of such a service could write one cookie in many ways, and count as a different client each time. For other services,
// the decoded value identifies the client as well as the original does.
func (c *cookieScanner) decode(value string) string {
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
		c.ambiguous = c.ambiguous || strings.IndexByte(value, '\\') >= 0 // Python reads this as an escape
	}
	c.ambiguous = c.ambiguous || strings.IndexByte(value, '"') >= 0 // some services remove the first and last character
	if strings.IndexByte(value, '%') < 0 {
		return value
	}
	plain, err := url.PathUnescape(value)
	if err != nil {
		c.ambiguous = true
		return value
	}
	c.ambiguous = c.ambiguous || hasControl(plain)
	return plain
}
