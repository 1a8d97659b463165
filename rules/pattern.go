package rules

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate"
)

// In a parsed pattern, star stands for '*' and doubleStar for '**'; all other bytes are literal. Values have no control
// characters, so neither can be meant literally.
const (
	star       = '\x00'
	doubleStar = '\x01'

	anyText     = string(star)
	anySegments = string(doubleStar)
)

// maxStars limits the backtracking of a pattern.
const maxStars = 16

// A pattern is the parsed value of a Test: a text with stars, or a network.
type pattern struct {
	text string
	net  netip.Prefix // of an ip; valid unless text is anyText
}

// exact reports whether the pattern matches only one value. A network is never exact.
func (p *pattern) exact() bool { return !p.net.IsValid() && !hasStars(p.text) }

func hasStars(text string) bool {
	return strings.IndexByte(text, star) >= 0 || strings.IndexByte(text, doubleStar) >= 0
}

// readPattern parses a value of a test of the given kind. A second result that is not empty says what would be valid.
func readPattern(kind headgate.AttributeKind, value string) (pattern, string) {
	if len(value) > MaxText {
		return pattern{}, "at most 4096 bytes"
	}
	if !utf8.ValidString(value) {
		return pattern{}, "valid UTF-8"
	}
	if kind == headgate.AttrIP {
		return readNetwork(value)
	}
	text, want := readStars(value)
	if want != "" {
		return pattern{}, want
	}
	if text == anyText {
		return pattern{text: text}, ""
	}
	switch kind {
	case headgate.AttrHost:
		return readHost(text)
	case headgate.AttrPath:
		return readPath(text)
	case headgate.AttrMethod:
		return readMethod(text)
	}
	if strings.IndexByte(text, doubleStar) >= 0 {
		return pattern{}, "one '*', which matches any characters here; ** is only for paths"
	}
	if kind == headgate.AttrSegment {
		return readSegment(text)
	}
	return pattern{text: text}, ""
}

// readStars replaces stars and escapes by their parsed form.
func readStars(value string) (text, want string) {
	var b strings.Builder
	stars := 0
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c < ' ' || c == 0x7f:
			return "", "no control characters"
		case c == '\\':
			if i++; i == len(value) || value[i] != '*' && value[i] != '\\' {
				return "", `\* or \\: a backslash escapes a star or a backslash`
			}
			b.WriteByte(value[i])
		case c == '*':
			stars++
			if i+1 < len(value) && value[i+1] == '*' {
				i++
				if i+1 < len(value) && value[i+1] == '*' {
					return "", "* or **, not three stars"
				}
				b.WriteByte(doubleStar)
			} else {
				b.WriteByte(star)
			}
		default:
			b.WriteByte(c)
		}
	}
	if stars > maxStars {
		return "", "at most 16 stars"
	}
	return b.String(), ""
}

func readHost(text string) (pattern, string) {
	text = canonicalHost(text)
	if strings.IndexByte(text, doubleStar) >= 0 {
		return pattern{}, "one '*', as in *.example.com, which matches all hosts below that domain"
	}
	if strings.IndexByte(text, ':') >= 0 && isAddress(text) {
		return pattern{text: text}, ""
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == star:
		case c == ':':
			return pattern{}, "a host without its port, or an address such as 2001:db8::1"
		case c >= 0x80:
			return pattern{}, "a host in ASCII, as in xn--bcher-kva.example"
		default:
			return pattern{}, "a host such as api.example.com or *.example.com: " +
				"* is the only wildcard, and alternatives are a list"
		}
	}
	if text == "" || text[0] == '.' || strings.HasSuffix(text, ".") || strings.Contains(text, "..") {
		return pattern{}, "a host such as api.example.com or *.example.com"
	}
	return pattern{text: text}, ""
}

// canonicalHost returns a host in the form that subjects have it in: lower case, an IPv6 address without brackets.
func canonicalHost(text string) string {
	text = strings.ToLower(text)
	bare := text
	if inside, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inside, "]") {
		bare = inside[:len(inside)-1]
	}
	if addr, err := netip.ParseAddr(bare); err == nil && addr.Is6() {
		return addr.String()
	}
	return text
}

func isAddress(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.Zone() == ""
}

func readPath(text string) (pattern, string) {
	if text == "" || text[0] != '/' && text[0] != star && text[0] != doubleStar {
		return pattern{}, "a path that begins with '/', as in /search/**"
	}
	if i := strings.IndexAny(text, "?#[]{}"); i >= 0 {
		switch text[i] {
		case '?', '#':
			return pattern{}, "a path without its query; use query.<name> for that"
		default:
			return pattern{}, "* and ** as the only wildcards; alternatives are a list"
		}
	}
	for segment := range strings.SplitSeq(text, "/") {
		switch {
		case segment == "." || segment == "..":
			return pattern{}, "no . and .. segments: they are removed from requests before matching"
		case strings.IndexByte(segment, doubleStar) >= 0 && segment != anySegments:
			return pattern{}, "** as a segment of its own, as in /a/**/b; within one, * stands for any characters"
		}
	}
	return readSent(text)
}

func readSegment(text string) (pattern, string) {
	if strings.IndexByte(text, '/') >= 0 {
		return pattern{}, "one segment of a path, without slashes"
	}
	return readSent(text)
}

// readSent refuses patterns that no path can match: paths have one form, the one in which they are sent.
func readSent(text string) (pattern, string) {
	if norm := sentForm(text); norm != text {
		return pattern{}, formatPattern(norm) + ", the form in which it is sent: escaped only where necessary"
	}
	return pattern{text: text}, ""
}

// sentForm returns a pattern of a path or a segment in the form that requests have. Escaped slashes and backslashes
// stay escaped, because a service may treat them as part of a name.
func sentForm(text string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c, escaped := text[i], false
		if c == '%' && i+2 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				c, escaped = byte(n), true
				i += 2
			}
		}
		plain := isAlphanumeric(c) || strings.IndexByte("-._~!$&'()*+,=:@", c) >= 0
		if plain || !escaped && (c == '/' || c == ';' || c == star || c == doubleStar) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&0xf]})
		}
	}
	return b.String()
}

// formatPattern returns a parsed pattern as it is written in rules.
func formatPattern(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, anyText, "*", anySegments, "**").Replace(text)
}

func readMethod(text string) (pattern, string) {
	text = strings.ToUpper(text)
	if !isToken(strings.ReplaceAll(text, anyText, "x")) {
		return pattern{}, "a method such as GET"
	}
	return pattern{text: text}, ""
}

func readNetwork(value string) (pattern, string) {
	const want = "an address or a network, as in 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32"
	if value == "*" {
		return pattern{text: anyText}, ""
	}
	if addr, err := netip.ParseAddr(value); err == nil {
		if addr.Zone() != "" {
			return pattern{}, "an address without a zone"
		}
		addr = addr.Unmap()
		return pattern{net: netip.PrefixFrom(addr, addr.BitLen())}, ""
	}
	net, err := netip.ParsePrefix(value)
	if err != nil {
		return pattern{}, want
	}
	if net.Addr().Is4In6() {
		if net.Bits() < 96 {
			return pattern{}, want
		}
		net = netip.PrefixFrom(net.Addr().Unmap(), net.Bits()-96)
	}
	if masked := net.Masked(); masked != net {
		return pattern{}, masked.String() + ", or " + net.Addr().String() + " for a single address"
	}
	return pattern{net: net}, ""
}

// isToken reports whether a text is an HTTP token, as methods and header names are.
func isToken(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return text != ""
}
