package identity

import (
	"strconv"
	"strings"
)

// cookie returns the value of a cookie: of several with this name the first, which is what browsers send as the most
// specific and most servers read.
func (a *Attributes) cookie(name string) string {
	lines, err := a.cookies()
	if err != nil {
		return ""
	}
	for _, line := range lines {
		if value, ok := findCookie(line, name); ok {
			return a.id.bound(value)
		}
	}
	return ""
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

func findCookie(line, name string) (value string, ok bool) {
	for line != "" {
		var part string
		part, line, _ = strings.Cut(line, ";")
		key, value, ok := strings.Cut(trim(part), "=")
		if !ok || trim(key) != name {
			continue
		}
		if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		return value, true
	}
	return "", false
}
