package identity

import "strings"

// bearerText returns the token without the padding of base64, which services add or drop as they need it.
func bearerText(token string) string { return strings.TrimRight(token, "=") }

// isBearerToken reports whether the text is one bearer token. An equals sign is only padding: with one in the middle it
// would be a list of parameters (RFC 9110, 11.4), of which services read the one that they know.
func isBearerToken(token string) bool {
	token = bearerText(token)
	if !isWord(token) || strings.IndexByte(token, '=') >= 0 {
		return false
	}
	return !looksSigned(token) || isCanonicalCompact(token)
}

// looksSigned reports whether the text looks like a token of JOSE: at least three parts, and the first is the base64 of
// text that begins with { and white space or a quote.
func looksSigned(token string) bool {
	return len(token) > 2 && token[0] == 'e' && (token[1] == 'y' || token[1] == 'w') && strings.Count(token, ".") >= 2
}

const base64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

var inBase64URL = func() (table [256]bool) {
	for i := range len(base64URL) {
		table[base64URL[i]] = true
	}
	return table
}()

// isCanonicalCompact reports whether all parts of a token are base64 as encoders write it. The signature does not cover its
// own text: decoders skip characters that base64 does not have, and bits at the end that do not fill a byte.
func isCanonicalCompact(token string) bool {
	for part := range strings.SplitSeq(token, ".") {
		for i := range len(part) {
			if !inBase64URL[part[i]] {
				return false
			}
		}
		unused := 0
		switch len(part) % 4 {
		case 0:
			continue
		case 1:
			return false
		case 2:
			unused = 0b1111
		case 3:
			unused = 0b11
		}
		if strings.IndexByte(base64URL, part[len(part)-1])&unused != 0 {
			return false
		}
	}
	return true
}

// findBearer returns the hash that stands for the bearer token, once.
func (a *Attributes) findBearer() string {
	if a.learn(knowsBearer) {
		if token := a.bearerToken(); token != "" {
			a.bearer = a.id.BearerHash(token)
		}
	}
	return a.bearer
}

// bearerToken returns the token of Authorization: Bearer.
func (a *Attributes) bearerToken() string {
	if auth := a.findAuthorization(); auth.scheme == schemeBearer && auth.err == nil {
		return auth.text
	}
	return ""
}

// BearerHash returns the value that the attribute bearer has for a token.
func (id *Identifier) BearerHash(token string) string {
	return id.hasher.sum(hashedBearer, bearerText(token))
}
