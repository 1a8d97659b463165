package identity

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// PathRules say how a path is read, where services differ. A gateway sends on the path that was read, so that the service
// sees what the rules saw.
type PathRules struct {
	// EncodedSlash says what %2F and %5C are, and a backslash. Default RefuseSlash.
	EncodedSlash EncodedSlash
	// KeepDoubleSlashes leaves // as it is, for services that give a meaning to empty segments, as object stores do. Default
	// is to make one of them.
	KeepDoubleSlashes bool
	// Parameters says what becomes of a semicolon in a segment and what follows it. Default RefuseParameters.
	Parameters Parameters
}

// An EncodedSlash says what becomes of slashes that are written %2F, and of backslashes, which are written %5C. Some
// services take them for slashes (most that match the decoded path: nginx, WSGI, Go's r.URL.Path), others for a part of a
// name (Go's ServeMux, npm, GitLab). A rule that takes them for the other could be passed by.
type EncodedSlash uint8

// What becomes of encoded slashes.
const (
	RefuseSlash EncodedSlash = iota // the path is malformed; right whatever the service does
	KeepSlash                       // they are part of a name, and stay encoded
	DecodeSlash                     // they are slashes
)

// Parameters say what becomes of the parameters of a path: a semicolon in a segment, and what follows it there. Java's servlet
// containers cut them off before they look for who serves a path, so that /admin;x/y is /admin/y to them; to almost all
// others they are part of a name. A rule that takes them for the other could be passed by. A semicolon that is written %3B
// begins none.
type Parameters uint8

// What becomes of parameters.
const (
	RefuseParameters Parameters = iota // the path is malformed; right whatever the service does
	KeepParameters                     // they are part of a name
	CutParameters                      // they are removed, before anything else is
)

func (p PathRules) validate() error {
	if p.Parameters > CutParameters {
		return fmt.Errorf("identity: Paths.Parameters %d: want RefuseParameters, KeepParameters or CutParameters", p.Parameters)
	}
	if p.EncodedSlash > DecodeSlash {
		return fmt.Errorf("identity: Paths.EncodedSlash %d: want RefuseSlash, KeepSlash or DecodeSlash", p.EncodedSlash)
	}
	return nil
}

// findPath returns the canonical path, once.
func (a *Attributes) findPath() (string, error) {
	if a.learn(knowsPath) {
		sent := a.pathSent
		if a.url != nil {
			sent = a.url.EscapedPath()
		}
		a.path, a.pathErr = a.id.canonicalPath(sent)
	}
	return a.path, a.pathErr
}

func (id *Identifier) canonicalPath(sent string) (string, error) {
	if len(sent) > id.config.MaxPath {
		return "", malformed("path", quote(sent), "at most "+strconv.Itoa(id.config.MaxPath)+" bytes")
	}
	return CanonicalPath(sent, id.config.Paths)
}

// segment returns a segment of a canonical path, "1" being the first.
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

// CanonicalPath returns a path in the one form that rules see. It takes the path as it is sent, escaped, without a query,
// such as r.URL.EscapedPath(). The result is escaped too, and can be sent on:
//
//   - parameters are refused, kept or removed, as rules say
//   - what may stand for itself in a path does (%61 is a, %3A is :), except that %3B is not the semicolon that begins a
//     parameter; all else is escaped, in upper case
//   - segments . and .. are gone, with what they remove, and never lead above the root
//   - several slashes are one, unless rules keep them
//   - encoded slashes and backslashes are refused, kept or slashes, as rules say
//   - nothing is /, and the * of OPTIONS stays
//
// It is decoded once: %2561 is not a. Refused are escapes that are none, NUL, paths that do not begin with a slash, and
// segments that some services take for . or .. and others do not: ..; and, where encoded slashes are kept, ..%2F. A path
// that is canonical already is returned as it is, without an allocation. The error is a *RequestError.
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

// standsForItself has the bytes that are not escaped in a path, the slash among them. The semicolon is not: it depends.
var standsForItself = func() (table [256]bool) {
	for c := range 256 {
		table[c] = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c < 0x80 && strings.IndexByte("-._~!$&'()*+,=:@/", byte(c)) >= 0
	}
	return table
}()

// isCanonical reports whether a path that begins with a slash is canonical, with semicolons or without. It may be wrong about
// one with encoded or double slashes, which then is looked at more closely.
func isCanonical(path string, semicolons bool) bool {
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '/':
			if isDots(path[i+1:]) || i+1 < len(path) && path[i+1] == '/' {
				return false
			}
		case c == '%':
			if !isNeeded(path[i:]) {
				return false
			}
			i += 2
		case !standsForItself[c]:
			if c != ';' || !semicolons {
				return false
			}
		}
	}
	return true
}

// isDots reports whether the first segment of the text is . or .., perhaps with a parameter.
func isDots(text string) bool {
	n := 0
	for n < len(text) && n < 2 && text[n] == '.' {
		n++
	}
	return n > 0 && (n == len(text) || text[n] == '/' || text[n] == ';')
}

// isNeeded reports whether the text begins with an escape in its canonical form.
func isNeeded(text string) bool {
	c, ok := unhex(text)
	if !ok || text[1] > 'F' || text[2] > 'F' {
		return false
	}
	return c != 0 && c != '/' && c != '\\' && !standsForItself[c]
}

// unescapePath makes every byte stand for itself where it may, and escapes the others.
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
		case standsForItself[c]:
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

// hidesDots reports whether a segment, itself not . or .., is one to services that cut parameters off, or that take what is
// kept encoded for slashes.
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

// cutSlash cuts a segment at the first slash or backslash that was kept encoded.
func cutSlash(name string) (part, rest string, found bool) {
	for i := 0; i+3 <= len(name); i++ {
		if escape := name[i : i+3]; escape == "%2F" || escape == "%5C" {
			return name[:i], name[i+3:], true
		}
	}
	return name, "", false
}
