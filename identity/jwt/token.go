package jwt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A token is a parsed token that is not verified yet.
type token struct {
	alg, kid  string
	signed    string // the part of the text that is signed: header and payload
	payload   map[string]any
	signature []byte
}

// parse parses a token in the compact form.
func parse(text string) (*token, error) {
	headerText, rest, ok := strings.Cut(text, ".")
	payloadText, signatureText, ok2 := strings.Cut(rest, ".")
	if !ok || !ok2 || strings.IndexByte(signatureText, '.') >= 0 {
		return nil, fmt.Errorf("%w: want three parts, header.claims.signature", ErrMalformed)
	}
	header, err := readObject(headerText)
	if err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrMalformed, err)
	}
	t := &token{signed: text[:len(headerText)+1+len(payloadText)]}
	if t.alg, ok = header["alg"].(string); !ok {
		return nil, fmt.Errorf("%w: header: no alg", ErrMalformed)
	}
	if kid, present := header["kid"]; present {
		if t.kid, ok = kid.(string); !ok {
			return nil, fmt.Errorf("%w: header: kid: want a string", ErrMalformed)
		}
	}
	if _, present := header["crit"]; present {
		return nil, fmt.Errorf("%w: header: crit: want none", ErrMalformed)
	}
	if t.payload, err = readObject(payloadText); err != nil {
		return nil, fmt.Errorf("%w: claims: %w", ErrMalformed, err)
	}
	if t.signature, err = decode(signatureText); err != nil {
		return nil, fmt.Errorf("%w: signature: %w", ErrMalformed, err)
	}
	return t, nil
}

// readObject parses a JSON object in base64url. Names are case-sensitive.
func readObject(text string) (map[string]any, error) {
	data, err := decode(text)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("want UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return nil, fmt.Errorf("want a JSON object: %w", err)
	}
	if object == nil || len(bytes.TrimSpace(data[decoder.InputOffset():])) > 0 {
		return nil, fmt.Errorf("want one JSON object")
	}
	return object, nil
}

// The times of tokens without the claims nbf (not before) and exp.
const (
	noNotBefore = math.MinInt64
	noExpiry    = math.MaxInt64
)

// period returns when a token becomes valid and when it expires, in milliseconds since 1970.
func (t *token) period() (from, until int64, err error) {
	if from, err = t.time("nbf", noNotBefore); err != nil {
		return 0, 0, err
	}
	until, err = t.time("exp", noExpiry)
	return from, until, err
}

// time returns the time in a claim, in milliseconds since 1970. If there is no such claim, it returns missing.
func (t *token) time(name string, missing int64) (int64, error) {
	value, present := t.payload[name]
	if !present {
		return missing, nil
	}
	number, ok := value.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%w: %s: want a number", ErrMalformed, name)
	}
	seconds, err := strconv.ParseFloat(number.String(), 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: want a number of seconds since 1970", ErrMalformed, name)
	}
	const maximum = 1 << 52 // floats below it hold milliseconds exactly
	return int64(max(-maximum, min(maximum, seconds*1000))), nil
}

// audience returns the audiences of a token.
func (t *token) audience() []string {
	switch aud := t.payload["aud"].(type) {
	case string:
		return []string{aud}
	case []any:
		var all []string
		for _, item := range aud {
			if text, ok := item.(string); ok {
				all = append(all, text)
			}
		}
		return all
	default:
		return nil
	}
}
