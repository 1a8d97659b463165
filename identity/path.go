package identity

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// PathRules say how to read the parts of a path that services read in different ways. The gateway forwards the
// canonical path, so that the service sees the same path as the rules.
type PathRules struct {
	// EncodedSlash says how %2F, %5C and backslashes are read. Default RefuseSlash.
	EncodedSlash EncodedSlash
	// KeepDoubleSlashes keeps //, for services in which empty segments have a meaning, such as object stores. Default
	// false: several slashes become one.
	KeepDoubleSlashes bool
	// Parameters says how a semicolon in a segment and the text after it are read. Default RefuseParameters.
	Parameters Parameters
}

// An EncodedSlash says how encoded slashes (%2F), backslashes and encoded backslashes (%5C) are read. Services that
// match the decoded path, such as nginx, WSGI and Go's r.URL.Path, read them as slashes. Others, such as Go's ServeMux,
// npm and GitLab, read them as part of a name. If the rules do not read them like the service, clients can evade rules.
type EncodedSlash uint8

// The choices for encoded slashes.
const (
	RefuseSlash EncodedSlash = iota // the path is malformed; safe for all services
	KeepSlash                       // they are part of a name, and stay encoded
	DecodeSlash                     // they become slashes
)

// Parameters says how path parameters are read: a semicolon in a segment, and the text after it. Java's servlet
// containers remove parameters before they match a path, so they read /admin;x/y as /admin/y. Almost all other services
// read them as part of a name. If the rules do not read them like the service, clients can evade rules. An encoded
// semicolon (%3B) does not begin a parameter.
type Parameters uint8

// The choices for parameters.
const (
	RefuseParameters Parameters = iota // the path is malformed; safe for all services
	KeepParameters                     // they are part of a name
	CutParameters                      // they are removed before the path is resolved
)

func (p PathRules) validate() error {
	if p.Parameters > CutParameters {
		return fmt.Errorf("identity: Paths.Parameters %d: want RefuseParameters, KeepParameters or CutParameters",
			p.Parameters)
	}
	if p.EncodedSlash > DecodeSlash {
		return fmt.Errorf("identity: Paths.EncodedSlash %d: want RefuseSlash, KeepSlash or DecodeSlash", p.EncodedSlash)
	}
	return nil
}

// findPath returns the canonical path, computed once per request.
func (a *Attributes) findPath() (string, error) {
	if a.firstLookup(lookupPath) {
		sent := a.rawPath
		if a.url != nil {
			sent = a.url.EscapedPath()
		}
		a.path, a.pathErr = a.identifier.canonicalPath(sent)
	}
	return a.path, a.pathErr
}

func (ident *Identifier) canonicalPath(sent string) (string, error) {
	if len(sent) > ident.config.MaxPath {
		return "", malformed("path", quote(sent), "at most "+strconv.Itoa(ident.config.MaxPath)+" bytes")
	}
	return CanonicalPath(sent, ident.config.Paths)
}

// segment returns the segment of a canonical path with the given number. The first segment has the number "1".
func segment(path, number string) string {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || path == "" || path[0] != '/' {
		return ""
	}
	for {
		path = path[1:]
		end := strings.IndexByte(path, '/')
		if n--; n == 0 {
			if end < 0 {
				return path
			}
			return path[:end]
		}
		if end < 0 {
			return ""
		}
		path = path[end:]
	}
}

// CanonicalPath returns a path in the form that rules use. It takes the escaped path without a query, such as
// r.URL.EscapedPath(). The result is escaped too, and can be forwarded:
//
//   - parameters are refused, kept or removed, as rules.Parameters says
//   - characters that need no escape are decoded (%61 is a, %3A is :), except %3B; others are escaped, in upper case
//   - segments . and .. are resolved, and never lead above the root
//   - several slashes become one, unless rules.KeepDoubleSlashes is set
//   - encoded slashes and backslashes are refused, kept or decoded, as rules.EncodedSlash says
//   - an empty path becomes /, and the path * of OPTIONS does not change
//
// The path is decoded only once: %2561 does not become a. CanonicalPath refuses invalid escapes, NUL, and paths that do
// not begin with a slash. It also refuses segments that only some services read as . or .., for example "..;" and, if
// encoded slashes are kept, "..%2F". It returns a canonical path unchanged, without an allocation. The error is a
// *RequestError.
func CanonicalPath(escaped string, rules PathRules) (string, error) {
	switch {
	case escaped == "":
		return "/", nil
	case escaped == "*":
		return escaped, nil
	case escaped[0] != '/':
		return "", badPath(escaped, "one that begins with /")
	case isCanonical(escaped, rules.Parameters == KeepParameters):
		return escaped, nil
	}
	text, err := unescapePath(escaped, rules)
	if err != nil {
		return "", err
	}
	return removeDots(escaped, text, rules)
}

func badPath(path, want string) error { return malformed("path", quote(path), want) }

// unescapedInPath says which bytes are not escaped in a canonical path. The slash is one of them. The semicolon is not,
// because its treatment depends on PathRules.
var unescapedInPath = func() (table [256]bool) {
	for c := range 256 {
		table[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c < 0x80 && strings.IndexByte("-._~!$&'()*+,=:@/", byte(c)) >= 0
	}
	return table
}()

// isCanonical reports whether a path that begins with a slash is certainly canonical. It returns false for encoded and
// double slashes, which are canonical only under some PathRules, and for semicolons unless they are allowed.
func isCanonical(path string, allowSemicolons bool) bool {
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '/':
			if isDots(path[i+1:]) || i+1 < len(path) && path[i+1] == '/' {
				return false
			}
		case c == '%':
			if !isCanonicalEscape(path[i:]) {
				return false
			}
			i += 2
		case !unescapedInPath[c]:
			if c != ';' || !allowSemicolons {
				return false
			}
		}
	}
	return true
}

// isDots reports whether the first segment of the text is . or .., with or without a parameter.
func isDots(text string) bool {
	n := 0
	for n < len(text) && n < 2 && text[n] == '.' {
		n++
	}
	return n > 0 && (n == len(text) || text[n] == '/' || text[n] == ';')
}

// isCanonicalEscape reports whether the text begins with a necessary escape in upper case.
func isCanonicalEscape(text string) bool {
	c, ok := unhex(text)
	if !ok || text[1] > 'F' || text[2] > 'F' {
		return false
	}
	return c != 0 && c != '/' && c != '\\' && !unescapedInPath[c]
}

// unescapePath decodes the bytes that need no escape, and escapes the others.
func unescapePath(escaped string, rules PathRules) (string, error) {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(escaped) + 16)
	for i := 0; i < len(escaped); i++ {
		c, encoded := escaped[i], false
		if c == '%' {
			if c, encoded = unhex(escaped[i:]); !encoded {
				return "", badPath(escaped, "two hexadecimal digits after each %")
			}
			i += 2
		}
		switch {
		case c == 0:
			return "", badPath(escaped, "no NUL")
		case c == '/' && !encoded:
			b.WriteByte('/')
		case c == '/' || c == '\\':
			switch rules.EncodedSlash {
			case DecodeSlash:
				b.WriteByte('/')
			case KeepSlash:
				b.Write([]byte{'%', digits[c>>4], digits[c&0xf]})
			default:
				return "", badPath(escaped, "no encoded slash or backslash, unless the configuration keeps or decodes them")
			}
		case c == ';' && !encoded:
			switch rules.Parameters {
			case KeepParameters:
				b.WriteByte(';')
			case CutParameters:
				for i+1 < len(escaped) && escaped[i+1] != '/' {
					i++
				}
			default:
				return "", badPath(escaped, "no semicolon, unless the configuration keeps parameters or cuts them off; %3B is none")
			}
		case unescapedInPath[c]:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&0xf]})
		}
	}
	return b.String(), nil
}

// removeDots removes segments . and .., and double slashes.
func removeDots(sent, path string, rules PathRules) (string, error) {
	out := make([]byte, 0, len(path))
	for path != "" {
		name := path[1:]
		end := strings.IndexByte(name, '/')
		if end >= 0 {
			name = name[:end]
		}
		path = path[1+len(name):]
		last := path == ""
		switch {
		case name == "." || name == "..":
			if name == ".." {
				out = out[:max(0, bytes.LastIndexByte(out, '/'))]
			}
			if last {
				out = append(out, '/')
			}
		case hidesDots(name):
			return "", badPath(sent, "no segment that may mean . or ..")
		case name == "" && !last && !rules.KeepDoubleSlashes:
		default:
			out = append(out, '/')
			out = append(out, name...)
		}
	}
	if len(out) == 0 {
		return "/", nil
	}
	return string(out), nil
}

// hidesDots reports whether some services read a segment as . or .., because they remove parameters or decode slashes
// that the canonical path keeps.
func hidesDots(name string) bool {
	for {
		part, rest, more := cutSlash(name)
		part, _, _ = strings.Cut(part, ";")
		if part == "." || part == ".." {
			return true
		}
		if !more {
			return false
		}
		name = rest
	}
}

// cutSlash cuts a segment at its first encoded slash or backslash.
func cutSlash(name string) (part, rest string, found bool) {
	for i := 0; i+3 <= len(name); i++ {
		if escape := name[i : i+3]; escape == "%2F" || escape == "%5C" {
			return name[:i], name[i+3:], true
		}
	}
	return name, "", false
}
