package identity

import "strings"

// bearerText returns the token without base64 padding, which services ignore.
func bearerText(token string) string {
	for token != "" && token[len(token)-1] == '=' {
		token = token[:len(token)-1]
	}
	return token
}

// isBearerToken reports whether the text is one bearer token. Equals signs are allowed only as padding: text with one
// in the middle is a list of parameters (RFC 9110, 11.4), of which services read the ones that they know.
func isBearerToken(token string) bool {
	token = bearerText(token)
	all := classesOf(token)
	if token == "" || all&inBearer == 0 {
		return false
	}
	// In base64, the header of a JOSE token (JWT) begins like this: { and a quote or white space.
	if len(token) < 2 || token[0] != 'e' || token[1] != 'y' && token[1] != 'w' {
		return true
	}
	parts, canonical := compactParts(token)
	return parts < 3 || canonical && all&inCompact != 0
}

const base64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// compactParts returns the number of parts of a JOSE token, and whether the last character of each is canonical
// base64url. The signature does not cover the text of the signature itself, and decoders ignore its last bits that do
// not fill a byte, so one token could otherwise be written in several ways.
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

// findBearer returns the hash of the bearer token, computed once per request.
func (a *Attributes) findBearer() string {
	if a.firstTime(foundBearer) {
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
