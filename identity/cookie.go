package identity

import (
	"net/url"
	"strconv"
	"strings"
)

// cookie returns the value of a cookie: of several with this name the first, which is what browsers send as the most
// specific and most servers read, or the last if Config.Repeated says so.
func (a *Attributes) cookie(name string) string {
	lines, err := a.cookies()
	if err != nil {
		return ""
	}
	found := ""
	for _, line := range lines {
		c := cookies{rest: line, name: name}
		for value, ok := c.next(); ok; value, ok = c.next() {
			if found = value; a.id.config.Repeated != LastRepeated {
				return a.id.bound(found)
			}
		}
	}
	return a.id.bound(found)
}

// cookies returns the lines of the Cookie header, if they are not too long: a service might find a cookie in them by which we
// would not know the client.
func (a *Attributes) cookies() ([]string, error) {
	lines := a.endToEnd(nameCookie)
	size := 0
	for _, line := range lines {
		if size += len(line); size > a.id.config.MaxCookies {
			return nil, malformed("header Cookie", "", "at most "+strconv.Itoa(a.id.config.MaxCookies)+" bytes")
		}
	}
	return lines, nil
}

// cookies walks the values of a cookie in one line.
type cookies struct {
	rest, name string
	odd        bool // services read a value in different ways
}

func (c *cookies) next() (value string, ok bool) {
	for c.rest != "" {
		var part string
		part, c.rest, _ = strings.Cut(c.rest, ";")
		key, value, ok := strings.Cut(part, "=")
		if !ok || trimSpace(key) != c.name {
			continue
		}
		return c.plain(trimSpace(value)), true
	}
	return "", false
}

// plain returns the value of a cookie without the quotes around it and with its escapes read, as some services do. To them
// a client could otherwise send one cookie in many ways, and be another client to us each time. For services that read less
// into it, only such a client sends it in two ways.
func (c *cookies) plain(value string) string {
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
		c.odd = c.odd || strings.IndexByte(value, '\\') >= 0 // an escape to Python alone
	}
	c.odd = c.odd || strings.IndexByte(value, '"') >= 0 // some remove the first and the last character then
	if strings.IndexByte(value, '%') < 0 {
		return value
	}
	plain, err := url.PathUnescape(value)
	if err != nil {
		c.odd = true
		return value
	}
	c.odd = c.odd || hasControl(plain)
	return plain
}
