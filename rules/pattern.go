package rules

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate"
)

// Inside a pattern that was read, star stands for '*' and deep for '**'; all other bytes stand for themselves. Values
// have no control characters, so neither can be meant literally.
const (
	star = '\x00'
	deep = '\x01'

	anyRun  = string(star)
	anyPath = string(deep)
)

// maxStars bounds how often a pattern can make matching try again.
const maxStars = 16

// A pattern is a value of a Test that was read: a text with stars, or a network.
type pattern struct {
	text string
	net  netip.Prefix // of an ip, valid unless text is anyRun
}

// exact tells whether the pattern is of one value only. A network never is.
func (p *pattern) exact() bool { return !p.net.IsValid() && !hasStars(p.text) }

func hasStars(text string) bool {
	return strings.IndexByte(text, star) >= 0 || strings.IndexByte(text, deep) >= 0
}

// readPattern reads a value of a test of the given kind. The text that it returns instead says what would be right.
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
	if text == anyRun {
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
	if strings.IndexByte(text, deep) >= 0 {
		return pattern{}, "one '*': it stands for any characters here, and ** is for paths"
	}
	if kind == headgate.AttrSegment {
		return readSegment(text)
	}
	return pattern{text: text}, ""
}

// readStars replaces stars and backslashes by what they mean.
func readStars(value string) (text, want string) {
	var b strings.Builder
	stars := 0
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c < ' ' || c == 0x7f:
			return "", "no control characters"
		case c == '\\':
			if i++; i == len(value) || value[i] != '*' && value[i] != '\\' {
				return "", `\* or \\: a backslash takes the meaning from a star or a backslash`
			}
			b.WriteByte(value[i])
		case c == '*':
			stars++
			if i+1 < len(value) && value[i+1] == '*' {
				i++
				if i+1 < len(value) && value[i+1] == '*' {
					return "", "* or **, not three stars"
				}
				b.WriteByte(deep)
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
	text = usualHost(text)
	if strings.IndexByte(text, deep) >= 0 {
		return pattern{}, "one '*', as in *.example.com, which is true of all hosts below that domain"
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
			return pattern{}, "a host such as api.example.com or *.example.com: * is the only wildcard, and alternatives are a list"
		}
	}
	if text == "" || text[0] == '.' || strings.HasSuffix(text, ".") || strings.Contains(text, "..") {
		return pattern{}, "a host such as api.example.com or *.example.com"
	}
	return pattern{text: text}, ""
}

// usualHost returns a host in the form that subjects have it in: in lower case, an address of IPv6 without brackets.
func usualHost(text string) string {
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
	if text == "" || text[0] != '/' && text[0] != star && text[0] != deep {
		return pattern{}, "a path from its first '/' on, as in /search/**"
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
			return pattern{}, "no . and .. segments: no request has them left when it is matched"
		case strings.IndexByte(segment, deep) >= 0 && segment != anyPath:
			return pattern{}, "** as a segment of its own, as in /a/**/b; within one, * stands for any characters"
		}
	}
	return readSent(text)
}

func readSegment(text string) (pattern, string) {
	if strings.IndexByte(text, '/') >= 0 {
		return pattern{}, "what stands between two slashes of a path, without them"
	}
	return readSent(text)
}

// readSent refuses what no path is ever compared with: paths have one form, that in which they are sent.
func readSent(text string) (pattern, string) {
	if form := sentForm(text); form != text {
		return pattern{}, written(form) + ", as it is sent: what must be escaped is, and nothing else"
	}
	return pattern{text: text}, ""
}

// sentForm returns a pattern of a path or a segment in the form in which requests have theirs. Slashes and backslashes
// that are escaped stay so: a service can be known to take them for a part of a name.
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
		if plain || !escaped && (c == '/' || c == ';' || c == star || c == deep) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&0xf]})
		}
	}
	return b.String()
}

// written returns a pattern that was read as it is written.
func written(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, anyRun, "*", anyPath, "**").Replace(text)
}

func readMethod(text string) (pattern, string) {
	text = strings.ToUpper(text)
	if !isToken(strings.ReplaceAll(text, anyRun, "x")) {
		return pattern{}, "a method such as GET"
	}
	return pattern{text: text}, ""
}

func readNetwork(value string) (pattern, string) {
	const want = "an address or a network, as in 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32"
	if value == "*" {
		return pattern{text: anyRun}, ""
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
		return pattern{}, masked.String() + ", or " + net.Addr().String() + " for the one address"
	}
	return pattern{net: net}, ""
}

// isToken tells whether a text is a token of HTTP, as methods and names of headers are.
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
