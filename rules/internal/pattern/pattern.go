// Package pattern parses the values of conditions: exact texts, texts with stars, and networks.
package pattern

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate"
)

// In a parsed pattern, Star stands for '*' and DoubleStar for '**'; all other bytes are literal. Both are control
// characters, which are not allowed in values.
const (
	Star       = '\x00'
	DoubleStar = '\x01'

	AnyText     = string(Star)
	AnySegments = string(DoubleStar)
)

// MaxBytes is the length of the longest value.
const MaxBytes = 4096

// maxStars is the maximum number of stars in a pattern. It limits the time of a match.
const maxStars = 16

// A Pattern is the parsed value of a Test: a text with stars, or a network.
type Pattern struct {
	Text string
	Net  netip.Prefix // the network, if the attribute is ip and Text is not AnyText
}

// Exact reports whether the pattern matches only one value. A network is never exact.
func (p *Pattern) Exact() bool { return !p.Net.IsValid() && !HasStars(p.Text) }

// HasStars reports whether a parsed pattern has stars.
func HasStars(text string) bool {
	return strings.IndexByte(text, Star) >= 0 || strings.IndexByte(text, DoubleStar) >= 0
}

// Parse parses a value of a test of the given kind. If the value is invalid, want describes valid values; otherwise it
// is empty.
func Parse(kind headgate.AttributeKind, value string) (p Pattern, want string) {
	if len(value) > MaxBytes {
		return Pattern{}, "at most " + strconv.Itoa(MaxBytes) + " bytes"
	}
	if !utf8.ValidString(value) {
		return Pattern{}, "valid UTF-8"
	}
	if kind == headgate.AttrIP {
		return readNetwork(value)
	}
	text, want := readStars(value)
	if want != "" {
		return Pattern{}, want
	}
	if text == AnyText {
		return Pattern{Text: text}, ""
	}
	switch kind {
	case headgate.AttrHost:
		return readHost(text)
	case headgate.AttrPath:
		return readPath(text)
	case headgate.AttrMethod:
		return readMethod(text)
	}
	if strings.IndexByte(text, DoubleStar) >= 0 {
		return Pattern{}, "one '*', which matches any characters here; ** is only for paths"
	}
	if kind == headgate.AttrSegment {
		return readSegment(text)
	}
	return Pattern{Text: text}, ""
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
				b.WriteByte(DoubleStar)
			} else {
				b.WriteByte(Star)
			}
		default:
			b.WriteByte(c)
		}
	}
	if stars > maxStars {
		return "", "at most " + strconv.Itoa(maxStars) + " stars"
	}
	return b.String(), ""
}

func readHost(text string) (Pattern, string) {
	text = canonicalHost(text)
	if strings.IndexByte(text, DoubleStar) >= 0 {
		return Pattern{}, "one '*', as in *.example.com, which matches all hosts below that domain"
	}
	if strings.IndexByte(text, ':') >= 0 && isAddress(text) {
		return Pattern{Text: text}, ""
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == Star:
		case c == ':':
			return Pattern{}, "a host without its port, or an address such as 2001:db8::1"
		case c >= 0x80:
			return Pattern{}, "a host in ASCII, as in xn--bcher-kva.example"
		default:
			return Pattern{}, "a host such as api.example.com or *.example.com: " +
				"* is the only wildcard, and alternatives are a list"
		}
	}
	if text == "" || text[0] == '.' || strings.HasSuffix(text, ".") || strings.Contains(text, "..") {
		return Pattern{}, "a host such as api.example.com or *.example.com"
	}
	return Pattern{Text: text}, ""
}

func isAddress(text string) bool {
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.Zone() == ""
}

func readPath(text string) (Pattern, string) {
	if text == "" || text[0] != '/' && text[0] != Star && text[0] != DoubleStar {
		return Pattern{}, "a path that begins with '/', as in /search/**"
	}
	if i := strings.IndexAny(text, "?#[]{}"); i >= 0 {
		switch text[i] {
		case '?', '#':
			return Pattern{}, "a path without its query; use query.<name> for that"
		default:
			return Pattern{}, "* and ** as the only wildcards; alternatives are a list"
		}
	}
	for segment := range strings.SplitSeq(text, "/") {
		switch {
		case segment == "." || segment == "..":
			return Pattern{}, "no . and .. segments: they are removed from requests before matching"
		case strings.IndexByte(segment, DoubleStar) >= 0 && segment != AnySegments:
			return Pattern{}, "** as a segment of its own, as in /a/**/b; within one, * stands for any characters"
		}
	}
	return readEscaped(text)
}

func readSegment(text string) (Pattern, string) {
	if strings.IndexByte(text, '/') >= 0 {
		return Pattern{}, "one segment of a path, without slashes"
	}
	return readEscaped(text)
}

// readEscaped refuses patterns that no path can match, because they escape other characters than requests do.
func readEscaped(text string) (Pattern, string) {
	if norm := normalizeEscapes(text); norm != text {
		return Pattern{}, formatPattern(norm) + ", the form in which it is sent: escaped only where necessary"
	}
	return Pattern{Text: text}, ""
}

// normalizeEscapes returns a pattern of a path or a segment with the escapes that requests have. Escaped slashes and
// backslashes stay escaped, because a service may treat them as part of a name.
func normalizeEscapes(text string) string {
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
		if plain || !escaped && (c == '/' || c == ';' || c == Star || c == DoubleStar) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&0xf]})
		}
	}
	return b.String()
}

// formatPattern returns a parsed pattern as it is written in rules.
func formatPattern(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, AnyText, "*", AnySegments, "**").Replace(text)
}

func readMethod(text string) (Pattern, string) {
	text = strings.ToUpper(text)
	if !IsToken(strings.ReplaceAll(text, AnyText, "x")) {
		return Pattern{}, "a method such as GET"
	}
	return Pattern{Text: text}, ""
}

func readNetwork(value string) (Pattern, string) {
	const want = "an address or a network, as in 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32"
	if value == "*" {
		return Pattern{Text: AnyText}, ""
	}
	if addr, err := netip.ParseAddr(value); err == nil {
		if addr.Zone() != "" {
			return Pattern{}, "an address without a zone"
		}
		addr = addr.Unmap()
		return Pattern{Net: netip.PrefixFrom(addr, addr.BitLen())}, ""
	}
	net, err := netip.ParsePrefix(value)
	if err != nil {
		return Pattern{}, want
	}
	if net.Addr().Is4In6() {
		if net.Bits() < 96 {
			return Pattern{}, want
		}
		net = netip.PrefixFrom(net.Addr().Unmap(), net.Bits()-96)
	}
	if masked := net.Masked(); masked != net {
		return Pattern{}, masked.String() + ", or " + net.Addr().String() + " for a single address"
	}
	return Pattern{Net: net}, ""
}
