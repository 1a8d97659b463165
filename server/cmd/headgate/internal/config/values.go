package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// A valueError is the error of a parser: the text that it got, and a description of valid texts.
type valueError struct{ value, want string }

func (c *valueError) Error() string { return c.value + ": want " + c.want }

func invalidValue(value, want string) error { return &valueError{rules.Quote(value), want} }

func explainError(err error) (value, want string) {
	var c *valueError
	if errors.As(err, &c) {
		return c.value, c.want
	}
	return rules.Explain(err)
}

// newCodec returns a codec for the types of a Config.
func newCodec() *source.Codec {
	c := source.NewCodec()
	c.Explain = explainError
	source.Words(c, rules.ParseDuration, rules.FormatDuration)
	source.Words(c, parseSize, Size.String)
	source.Words(c, parseSpan, Span.String)
	source.Words(c, parsePrefix, netip.Prefix.String)
	source.Words(c, parseUserSource, UserSource.String)
	source.Words(c, parseEncodedSlash, EncodedSlash.String)
	source.Words(c, parseParameters, Parameters.String)
	source.Words(c, parseRepeated, Repeated.String)
	source.Words(c, parseReset, Reset.String)
	source.Words(c, parseCount, Count.String)
	source.Words(c, parseTLSVersion, TLSVersion.String)
	source.Words(c, rules.ParsePolicy, headgate.Policy.String)
	source.Nodes(c, decodeUpstream, func(u Upstream) *source.Node { return encodeUpstream(c, u) })
	return c
}

// A Size is a number of bytes, such as 4096, 64KiB or 10MB, or off for no limit.
type Size int64

// SizeOff is the value of "off".
const SizeOff Size = -1

var sizeUnits = []struct {
	word  string
	bytes int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// maxSize keeps sums of sizes within an int64.
const maxSize = 1 << 50

func parseSize(text string) (Size, error) {
	if text == Off {
		return SizeOff, nil
	}
	number, unit := strings.TrimSpace(text), int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.word); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || n > maxSize/unit {
		return 0, invalidValue(text, "a number of bytes such as 65536, 64KiB or 10MB")
	}
	return Size(n * unit), nil
}

func (s Size) String() string {
	if s == SizeOff {
		return Off
	}
	for i := 3; i >= 0; i-- {
		if u := sizeUnits[i]; int64(s) >= u.bytes && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.word
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// A Count is a positive number, or CountOff. The zero value means that the field is not set.
type Count int

// CountOff is the value of "0" and "off".
const CountOff Count = -1

func parseCount(text string) (Count, error) {
	if text == Off {
		return CountOff, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, invalidValue(text, "a whole number, or off")
	}
	if n == 0 {
		return CountOff, nil
	}
	return Count(n), nil
}

func (c Count) String() string {
	if c == CountOff {
		return Off
	}
	return strconv.Itoa(int(c))
}

// A TLSVersion is the oldest accepted version of TLS: 1.2 or 1.3.
type TLSVersion uint16

func (v TLSVersion) String() string {
	if v == tls.VersionTLS12 {
		return "1.2"
	}
	return "1.3"
}

func parseTLSVersion(text string) (TLSVersion, error) {
	return oneOf(text, TLSVersion(tls.VersionTLS12), TLSVersion(tls.VersionTLS13))
}

// A Span is a duration, or SpanOff. The zero value means that the field is not set.
type Span time.Duration

// SpanOff is the value of "off".
const SpanOff Span = -1

func parseSpan(text string) (Span, error) {
	if text == Off {
		return SpanOff, nil
	}
	d, err := rules.ParseDuration(text)
	if err != nil {
		_, want := rules.Explain(err)
		return 0, invalidValue(text, want+", or off")
	}
	return Span(d), nil
}

// Duration converts s to a time.Duration.
func (s Span) Duration() time.Duration { return time.Duration(s) }

func (s Span) String() string {
	if s == SpanOff {
		return Off
	}
	return rules.FormatDuration(time.Duration(s))
}

func parsePrefix(text string) (netip.Prefix, error) {
	list, err := identity.ParseNetworks(text)
	if err == nil && len(list) != 1 {
		err = errNotOneNetwork
	}
	if err != nil {
		return netip.Prefix{}, invalidValue(text, "one address or network, such as 10.0.0.0/8")
	}
	return list[0], nil
}

var errNotOneNetwork = errors.New("not one network")

// A UserSource is the part of a request that has the user's name: basic, token, header or basic_and_ip.
type UserSource identity.UserSource

var userSources = []UserSource{
	UserSource(identity.UserFromBasic), UserSource(identity.UserFromToken), UserSource(identity.UserFromHeader),
	UserSource(identity.UserFromBasicAndIP),
}

func (s UserSource) String() string { return identity.UserSource(s).String() }

func parseUserSource(text string) (UserSource, error) { return oneOf(text, userSources...) }

// An EncodedSlash says how to handle a slash that is encoded as %2F: refuse, keep or decode.
type EncodedSlash identity.EncodedSlash

var encodedSlashes = []string{
	identity.RefuseSlash: "refuse", identity.KeepSlash: "keep", identity.DecodeSlash: "decode",
}

func (e EncodedSlash) String() string { return encodedSlashes[e] }

func parseEncodedSlash(text string) (EncodedSlash, error) {
	return oneOf(text, EncodedSlash(identity.RefuseSlash), EncodedSlash(identity.KeepSlash),
		EncodedSlash(identity.DecodeSlash))
}

// Parameters says how to handle the parameters of a path: refuse, keep or cut.
type Parameters identity.Parameters

var parameterWords = []string{
	identity.RefuseParameters: "refuse", identity.KeepParameters: "keep", identity.CutParameters: "cut",
}

func (p Parameters) String() string { return parameterWords[p] }

func parseParameters(text string) (Parameters, error) {
	return oneOf(text, Parameters(identity.RefuseParameters), Parameters(identity.KeepParameters),
		Parameters(identity.CutParameters))
}

// Repeated says how to handle several values of a cookie or a query parameter: refuse, or use the first or the last.
type Repeated identity.Repeated

var repeatedWords = []string{
	identity.RefuseRepeated: "refuse", identity.FirstRepeated: "first", identity.LastRepeated: "last",
}

func (r Repeated) String() string { return repeatedWords[r] }

func parseRepeated(text string) (Repeated, error) {
	return oneOf(text, Repeated(identity.RefuseRepeated), Repeated(identity.FirstRepeated),
		Repeated(identity.LastRepeated))
}

// Reset is the format of X-RateLimit-Reset: epoch, or delta if true.
type Reset bool

func (r Reset) String() string {
	if r {
		return "delta"
	}
	return "epoch"
}

func parseReset(text string) (Reset, error) { return oneOf(text, Reset(false), Reset(true)) }

// oneOf returns the value whose String is text.
func oneOf[T fmt.Stringer](text string, values ...T) (T, error) {
	var words []string
	for _, v := range values {
		if v.String() == text {
			return v, nil
		}
		words = append(words, v.String())
	}
	var zero T
	last := len(words) - 1
	return zero, invalidValue(text, strings.Join(words[:last], ", ")+" or "+words[last])
}
