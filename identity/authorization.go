package identity

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A scheme is a scheme of the Authorization header that identifies clients.
type scheme uint8

const (
	schemeOther scheme = iota // another scheme, no header, or no credential
	schemeBasic
	schemeBearer
)

// An authorization is the Authorization header of a request.
type authorization struct {
	scheme scheme
	text   string // the credential after the scheme; the whole value if scheme is schemeOther
	err    *RequestError
}

// findAuthorization returns the Authorization header, parsed once per request. Several lines must be equal, because a
// service may read any of them.
func (a *Attributes) findAuthorization() *authorization {
	if !a.firstLookup(lookupAuthorization) {
		return &a.auth
	}
	lines := a.endToEndLines(nameAuthorization)
	if len(lines) == 0 {
		return &a.auth
	}
	a.auth = parseAuthorization(lines[0])
	if !allEqual(lines) {
		a.auth = authorization{err: badAuthorization("one value; there are several that differ")}
	}
	return &a.auth
}

// parseAuthorization parses the value of an Authorization header. It ignores white space around the scheme and the
// credential.
func parseAuthorization(value string) authorization {
	value = trimBlanks(value)
	auth := authorization{text: value}
	switch {
	case hasPrefixFold(value, "bearer"):
		auth.scheme, auth.text = schemeBearer, value[len("Bearer"):]
	case hasPrefixFold(value, "basic"):
		auth.scheme, auth.text = schemeBasic, value[len("Basic"):]
	default:
		if value != "" && (leadingSpace(value) > 0 || containsScheme(value)) {
			auth.err = badAuthorization("one scheme, at the start of the value")
		}
		return auth
	}
	rest := trimBlanks(auth.text)
	switch {
	case auth.text == "":
		return authorization{} // no credential
	case len(rest) == len(auth.text):
		auth.err = badAuthorization("a space after the scheme")
	case auth.scheme == schemeBearer && !isBearerToken(rest):
		auth.err = badAuthorization("one bearer token: " + wantCredential)
	case auth.scheme == schemeBasic && !isBasic(rest):
		auth.err = badAuthorization("one user and password in base64")
	}
	auth.text = rest
	return auth
}

// badAuthorization returns an error without the value, which is secret.
func badAuthorization(want string) *RequestError {
	return &RequestError{Part: "header Authorization", Want: want}
}

// hasPrefixFold is strings.HasPrefix, ignoring case.
func hasPrefixFold(text, name string) bool {
	return len(text) >= len(name) && strings.EqualFold(text[:len(name)], name)
}

// containsScheme reports whether a service that searches the whole value for Basic or Bearer would find one.
func containsScheme(value string) bool {
	for i := range len(value) {
		if startsWithScheme(value[i:], "basic") || startsWithScheme(value[i:], "bearer") {
			return true
		}
	}
	return false
}

// startsWithScheme reports whether the text begins with the name of a scheme and white space.
func startsWithScheme(text, name string) bool {
	return hasPrefixFold(text, name) && leadingSpace(text[len(name):]) > 0
}

// canonical returns the scheme and the credential in the form that is hashed for header.authorization.
func (auth *authorization) canonical() (name, rest string) {
	switch auth.scheme {
	case schemeBasic:
		plain, _ := decodeBasic(auth.text, nil)
		return "basic ", string(plain)
	case schemeBearer:
		return "bearer ", bearerText(auth.text)
	}
	end := strings.IndexAny(auth.text, " \t")
	if end < 0 {
		return "", auth.text
	}
	return strings.ToLower(auth.text[:end]) + " ", trimBlanks(auth.text[end:])
}

// authorizationHash returns the value of the attribute header.authorization, which is empty if the header is
// missing or malformed.
func (ident *Identifier) authorizationHash(auth *authorization) string {
	if auth.text == "" || auth.err != nil || len(auth.text) > maxInputBytes {
		return ""
	}
	name, rest := auth.canonical()
	return ident.hasher.sumPair(hashedHeader, name, rest)
}

// isBasic reports whether the text is a user and password that all services read in the same way.
func isBasic(text string) bool {
	if len(text) > maxInputBytes {
		return true // basicUser treats it as missing
	}
	plain, ok := decodeBasic(text, make([]byte, 0, 256))
	if ok {
		_, ok = userOf(plain)
	}
	return ok
}

// basicUser returns the user of Authorization: Basic, with the texts from and address appended. The password is not
// checked.
func (a *Attributes) basicUser(from, address string) string {
	auth := a.findAuthorization()
	if auth.scheme != schemeBasic || auth.err != nil || len(auth.text) > maxInputBytes {
		return ""
	}
	plain, ok := decodeBasic(auth.text, make([]byte, 0, 256))
	if !ok {
		return ""
	}
	user, _ := userOf(plain)
	if len(user) == 0 {
		return ""
	}
	return a.identifier.hashIfLong(string(user) + from + address)
}

// decodeBasic decodes base64 with or without padding, and appends the result to buffer. It refuses - and _, the two
// characters of the URL alphabet, because Node decodes them, and Python and PHP skip them.
func decodeBasic(text string, buffer []byte) (plain []byte, ok bool) {
	text = strings.TrimRight(text, "=")
	if strings.ContainsAny(text, "\r\n") { // the decoder skips them
		return nil, false
	}
	plain, err := base64.RawStdEncoding.AppendDecode(buffer, []byte(text))
	return plain, err == nil
}

// userOf returns the user of "user:password". Text without a colon is a user without a password, as in some services.
// userOf returns false if the user contains control characters.
func userOf(plain []byte) (user []byte, ok bool) {
	if end := bytes.IndexByte(plain, ':'); end >= 0 {
		plain = plain[:end]
	}
	if !utf8.Valid(plain) { // read it as ISO 8859-1
		text := make([]rune, len(plain))
		for i, c := range plain {
			text[i] = rune(c)
		}
		plain = []byte(string(text))
	}
	plain = bytes.TrimFunc(plain, isSpace)
	return plain, !bytes.ContainsFunc(plain, unicode.IsControl)
}

// bearerText returns the token without base64 padding, which services ignore.
func bearerText(token string) string { return strings.TrimRight(token, "=") }

// isBearerToken reports whether the text is one bearer token. Equals signs are allowed only at the end, as padding.
// Text with an equals sign in the middle is a list of parameters (RFC 9110, 11.4), from which services read different
// ones.
func isBearerToken(token string) bool {
	token = bearerText(token)
	all := classesOf(token)
	if token == "" || all&inBearer == 0 {
		return false
	}
	// The header of a JOSE token, such as a JWT, begins with { and a quote or white space: in base64, ey or ew.
	if len(token) < 2 || token[0] != 'e' || token[1] != 'y' && token[1] != 'w' {
		return true
	}
	parts, canonical := compactParts(token)
	return parts < 3 || canonical && all&inCompact != 0
}

const base64URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// compactParts returns the number of parts of a JOSE token, and whether the last character of each part is canonical
// base64url. If this was not checked, a token could be written in several ways, because decoders ignore the last bits
// of a part that do not fill a byte, and the signature does not protect its own text.
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

// sextets maps each character of base64url to the six bits that it encodes, and other characters to 0xff.
var sextets = func() (table [256]byte) {
	for c := range table {
		table[c] = byte(strings.IndexByte(base64URL, byte(c)))
	}
	return table
}()

// findBearer returns the hash of the bearer token, computed once per request.
func (a *Attributes) findBearer() string {
	if a.firstLookup(lookupBearer) {
		if token := a.bearerToken(); token != "" {
			a.bearer = a.identifier.BearerHash(token)
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
func (ident *Identifier) BearerHash(token string) string {
	return ident.hasher.sum(hashedBearer, bearerText(token))
}
