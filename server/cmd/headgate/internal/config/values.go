package config

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// A valueError is the error of an invalid setting.
type valueError struct {
	problem string // the invalid value, or a description of the problem
	want    string // a description of valid values
}

// onlyOne is valueError.want if two settings exclude each other.
const onlyOne = "only one of them"

func (e *valueError) Error() string { return e.problem + ": want " + e.want }

func invalidValue(value, want string) error { return &valueError{rules.Quote(value), want} }

func explainError(err error) (problem, want string) {
	var e *valueError
	if errors.As(err, &e) {
		return e.problem, e.want
	}
	return rules.Explain(err)
}

// newCodec returns a codec for the types of a Config.
func newCodec() *source.Codec {
	c := source.NewCodec()
	c.Explain = explainError
	source.RegisterScalar(c, rules.ParseDuration, rules.FormatDuration)
	source.RegisterScalar(c, parseSize, Size.String)
	source.RegisterScalar(c, parseDurationOrOff, DurationOrOff.String)
	source.RegisterScalar(c, parsePrefix, netip.Prefix.String)
	source.RegisterScalar(c, userSources.parse, userSources.format)
	source.RegisterScalar(c, encodedSlashes.parse, encodedSlashes.format)
	source.RegisterScalar(c, pathParameters.parse, pathParameters.format)
	source.RegisterScalar(c, repeatedValues.parse, repeatedValues.format)
	source.RegisterScalar(c, resetFormats.parse, resetFormats.format)
	source.RegisterScalar(c, nameModes.parse, nameModes.format)
	source.RegisterScalar(c, parseCountOrOff, CountOrOff.String)
	source.RegisterScalar(c, tlsVersions.parse, tlsVersions.format)
	source.RegisterScalar(c, rules.ParsePolicy, headgate.Policy.String)
	source.RegisterNode(c, decodeUpstream, func(u Upstream) *source.Node { return encodeUpstream(c, u) })
	return c
}

// A Size is a number of bytes, such as 4096, 64KiB or 10MB, or off for no limit.
type Size int64

// SizeOff is the Size of "off".
const SizeOff Size = -1

// sizeUnits are the units of sizes. Size.String uses only the first four, which are in ascending order.
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
	for i := 3; i >= 0; i-- { // find the largest unit that divides s
		if u := sizeUnits[i]; int64(s) >= u.bytes && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.word
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// A CountOrOff is a positive number, or CountOff. The zero value means that the field is not set.
type CountOrOff int

// CountOff is the CountOrOff of "0" and "off".
const CountOff CountOrOff = -1

func parseCountOrOff(text string) (CountOrOff, error) {
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
	return CountOrOff(n), nil
}

func (c CountOrOff) String() string {
	if c == CountOff {
		return Off
	}
	return strconv.Itoa(int(c))
}

// A DurationOrOff is a duration, or DurationOff. The zero value means that the field is not set.
type DurationOrOff time.Duration

// DurationOff is the DurationOrOff of "off".
const DurationOff DurationOrOff = -1

func parseDurationOrOff(text string) (DurationOrOff, error) {
	if text == Off {
		return DurationOff, nil
	}
	d, err := rules.ParseDuration(text)
	if err != nil {
		_, want := rules.Explain(err)
		return 0, invalidValue(text, want+", or off")
	}
	return DurationOrOff(d), nil
}

// Duration converts d to a time.Duration. The result for DurationOff is negative.
func (d DurationOrOff) Duration() time.Duration { return time.Duration(d) }

func (d DurationOrOff) String() string {
	if d == DurationOff {
		return Off
	}
	return rules.FormatDuration(time.Duration(d))
}

func parsePrefix(text string) (netip.Prefix, error) {
	list, err := identity.ParseNetworks(text)
	if err != nil || len(list) != 1 {
		return netip.Prefix{}, invalidValue(text, "one address or network, such as 10.0.0.0/8")
	}
	return list[0], nil
}

// A choice is a word in the file, and the value that it stands for.
type choice[T comparable] struct {
	value T
	word  string
}

// choices are the words that a setting accepts.
type choices[T comparable] []choice[T]

var userSources = choices[identity.UserSource]{
	{identity.UserFromBasic, "basic"},
	{identity.UserFromToken, "token"},
	{identity.UserFromHeader, "header"},
	{identity.UserFromBasicAndIP, "basic_and_ip"},
}

var encodedSlashes = choices[identity.EncodedSlash]{
	{identity.RefuseSlash, "refuse"}, {identity.KeepSlash, "keep"}, {identity.DecodeSlash, "decode"},
}

var pathParameters = choices[identity.Parameters]{
	{identity.RefuseParameters, "refuse"}, {identity.KeepParameters, "keep"}, {identity.CutParameters, "cut"},
}

var repeatedValues = choices[identity.Repeated]{
	{identity.RefuseRepeated, "refuse"}, {identity.FirstRepeated, "first"}, {identity.LastRepeated, "last"},
}

// A ResetFormat is the format of X-RateLimit-Reset. The zero value is the time of the reset in seconds since 1970.
type ResetFormat bool

// ResetDelta is the number of seconds until the reset.
const ResetDelta ResetFormat = true

var resetFormats = choices[ResetFormat]{{!ResetDelta, "epoch"}, {ResetDelta, "delta"}}

// A TLSVersion is a version of TLS, with the number from package crypto/tls.
type TLSVersion uint16

var tlsVersions = choices[TLSVersion]{{tls.VersionTLS12, "1.2"}, {tls.VersionTLS13, "1.3"}}

// words returns the words of all choices.
func (c choices[T]) words() []string {
	var list []string
	for _, choice := range c {
		list = append(list, choice.word)
	}
	return list
}

func (c choices[T]) parse(text string) (value T, err error) {
	for _, choice := range c {
		if choice.word == text {
			return choice.value, nil
		}
	}
	words := c.words()
	last := len(words) - 1
	return value, invalidValue(text, strings.Join(words[:last], ", ")+" or "+words[last])
}

func (c choices[T]) format(value T) string {
	return c[slices.IndexFunc(c, func(choice choice[T]) bool { return choice.value == value })].word
}
