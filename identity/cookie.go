package identity

import (
	"net/url"
	"strconv"
	"strings"
)

// cookie returns the value of a cookie. If there are several with this name, it returns the first, because
// browsers send the most specific cookie first and most services read that. With LastRepeated it returns the
// last.
func (a *Attributes) cookie(name string) string {
	lines, err := a.cookies()
	if err != nil {
		return ""
	}
	result := ""
	for _, line := range lines {
		c := cookieScanner{rest: line, name: name}
		for value, ok := c.next(); ok; value, ok = c.next() {
			if result = value; a.id.config.Repeated != LastRepeated {
				return a.id.hashIfLong(result)
			}
		}
	}
	return a.id.hashIfLong(result)
}

// cookies returns the lines of the Cookie header, or an error if they are too long to search. Without the error, a
// service could find a cookie that the rules have not seen.
func (a *Attributes) cookies() ([]string, error) {
	lines := a.endToEndLines(nameCookie)
	size := 0
	for _, line := range lines {
		if size += len(line); size > a.id.config.MaxCookies {
			return nil, malformed("header Cookie", "", "at most "+strconv.Itoa(a.id.config.MaxCookies)+" bytes")
		}
	}
	return lines, nil
}

// A cookieScanner finds the values of a cookie in one line.
type cookieScanner struct {
	rest, name string
	ambiguous  bool // services differ in how they read a value that was found
}

func (c *cookieScanner) next() (value string, ok bool) {
	for c.rest != "" {
		var part string
		part, c.rest, _ = strings.Cut(c.rest, ";")
		key, value, ok := strings.Cut(part, "=")
		if !ok || trimSpace(key) != c.name {
			continue
		}
		return c.decode(trimSpace(value)), true
	}
	return "", false
}

// decode returns the value of a cookie without quotes around it and with escapes decoded. Some services do the
// same: without this, a client could write one cookie in many ways and count as another client each time. For
// other services the decoded text identifies the client as well as the original.
func (c *cookieScanner) decode(value string) string {
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
		c.ambiguous = c.ambiguous || strings.IndexByte(value, '\\') >= 0 // an escape for Python only
	}
	c.ambiguous = c.ambiguous || strings.IndexByte(value, '"') >= 0 // some services remove its first and last character
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
