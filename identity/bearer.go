package identity

import "strings"

// bearerText returns the token without the padding of base64, which services add or drop as they need it.
func bearerText(token string) string {
	for token != "" && token[len(token)-1] == '=' {
		token = token[:len(token)-1]
	}
	return token
}

// isBearerToken reports whether the text is one bearer token. An equals sign is only padding: with one in the middle it
// would be a list of parameters (RFC 9110, 11.4), of which services read the one that they know.
func isBearerToken(token string) bool {
	token = bearerText(token)
	all := classesOf(token)
	if token == "" || all&inBearer == 0 {
		return false
	}
	// Text that begins with { and white space or a quote begins like this in base64: the header of a JOSE token (JWT).
	if len(token) < 2 || token[0] != 'e' || token[1] != 'y' && token[1] != 'w' {
		return true
	}
	parts, canonical := compactParts(token)
	return parts < 3 || canonical && all&inCompact != 0
}

const base64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// compactParts returns how many parts a JOSE token has, and whether all end as encoders of base64url end them. The signature
// does not cover its own text: decoders skip other characters, and bits at the end that do not fill a byte.
func compactParts(token string) (parts int, canonical bool) {
	for canonical = true; ; parts++ {
		end := strings.IndexByte(token, '.')
		part := token
		if end >= 0 {
			part = token[:end]
		}
		switch len(part) % 4 {
		case 1:
			canonical = false
		case 2:
			canonical = canonical && sextets[part[len(part)-1]]&0b1111 == 0
		case 3:
			canonical = canonical && sextets[part[len(part)-1]]&0b11 == 0
		}
		if end < 0 {
			return parts + 1, canonical
		}
		token = token[end+1:]
	}
}

// sextets has the six bits that each character of base64url encodes, and all bits for other characters.
var sextets = func() (table [256]byte) {
	for c := range table {
		table[c] = byte(strings.IndexByte(base64URL, byte(c)))
	}
	return table
}()

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
