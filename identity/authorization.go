package identity

import (
	"strings"
)

// A scheme is a scheme of the Authorization header that identifies clients.
type scheme uint8

const (
	schemeOther scheme = iota // no header, a scheme without a credential, or another scheme
	schemeBasic
	schemeBearer
)

// An authorization is the Authorization header of a request.
type authorization struct {
	scheme scheme
	text   string // the credential after the scheme; the whole value of another scheme
	err    *RequestError
}

// findAuthorization parses the Authorization header, once per request. Several lines must be equal, because a service
// may read any of them.
func (a *Attributes) findAuthorization() *authorization {
	if !a.firstTime(foundAuthorization) {
		return &a.auth
	}
	lines := a.endToEndLines(nameAuthorization)
	if len(lines) == 0 {
		return &a.auth
	}
	for _, line := range lines[1:] {
		if line != lines[0] {
			a.auth.err = badAuthorization("it once")
			return &a.auth
		}
	}
	a.auth = parseAuthorization(lines[0])
	return &a.auth
}

// parseAuthorization parses a scheme and its credential. White space around both is ignored.
func parseAuthorization(value string) authorization {
	value = trim(value)
	auth := authorization{text: value}
	switch {
	case hasName(value, "bearer"):
		auth.scheme, auth.text = schemeBearer, value[len("Bearer"):]
	case hasName(value, "basic"):
		auth.scheme, auth.text = schemeBasic, value[len("Basic"):]
	default:
		if value != "" && (leadingSpace(value) > 0 || hidesScheme(value)) {
			auth.err = badAuthorization("a scheme at its start, and one only")
		}
		return auth
	}
	rest := trim(auth.text)
	switch {
	case auth.text == "":
		return authorization{} // no credential
	case len(rest) == len(auth.text):
		auth.err = badAuthorization("a space after the scheme")
	case auth.scheme == schemeBearer && !isBearerToken(rest):
		auth.err = badAuthorization("one bearer token: " + wantWord)
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

// hasName reports whether the text begins with the name, which is given in lower case, ignoring case.
func hasName(text, lower string) bool {
	if len(text) < len(lower) {
		return false
	}
	for i := range len(lower) {
		if text[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// hidesScheme reports whether a service that searches the whole value for Basic or Bearer would find one.
func hidesScheme(value string) bool {
	for i := range len(value) {
		if isNamed(value[i:], "basic") || isNamed(value[i:], "bearer") {
			return true
		}
	}
	return false
}

// isNamed reports whether the text begins with the name and white space.
func isNamed(text, name string) bool {
	return hasName(text, name) && leadingSpace(text[len(name):]) > 0
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
	return strings.ToLower(auth.text[:end]) + " ", trim(auth.text[end:])
}

// authorizationHash returns the value of header.authorization. It is empty if the header is missing or malformed.
func (id *Identifier) authorizationHash(auth *authorization) string {
	if auth.text == "" || auth.err != nil || len(auth.text) > maxHashed {
		return ""
	}
	name, rest := auth.canonical()
	return id.hasher.sumPair(hashedHeader, name, rest)
}
