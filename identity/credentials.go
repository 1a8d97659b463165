package identity

import (
	"encoding/base64"
	"strings"
)

// authorization returns the Authorization header. Repeated, it must always be the same: a service may read either.
func (a *Attributes) authorization() (string, error) {
	lines := a.endToEnd(nameAuthorization)
	if len(lines) == 0 {
		return "", nil
	}
	for _, line := range lines[1:] {
		if line != lines[0] {
			return "", malformed("header Authorization", "", "it once")
		}
	}
	return trim(lines[0]), nil
}

// credentials returns what follows a scheme in the Authorization header.
func (a *Attributes) credentials(scheme string) string {
	value, err := a.authorization()
	if err != nil || len(value) <= len(scheme) || value[len(scheme)] != ' ' || !strings.EqualFold(value[:len(scheme)], scheme) {
		return ""
	}
	return trim(value[len(scheme):])
}

// bearerToken returns the token of Authorization: Bearer.
func (a *Attributes) bearerToken() string { return a.credentials("Bearer") }

// findBearer returns what stands for the bearer token, once.
func (a *Attributes) findBearer() string {
	if a.learn(knowsBearer) {
		if token := a.bearerToken(); token != "" {
			a.bearer = a.id.BearerHash(token)
		}
	}
	return a.bearer
}

// basicUser returns the user of Authorization: Basic. The password is not looked at.
func (a *Attributes) basicUser() string {
	text := a.credentials("Basic")
	if text == "" || len(text) > maxHashed {
		return ""
	}
	plain := make([]byte, 0, 256)
	plain, err := base64.StdEncoding.AppendDecode(plain, []byte(text))
	if err != nil {
		return ""
	}
	for i, c := range plain {
		if c == ':' {
			return a.id.bound(string(plain[:i]))
		}
	}
	return ""
}

// findKey returns the API key, once. Where there are several that differ, the service may read any of them: a client could
// show us another one each time, so none counts.
func (a *Attributes) findKey() (string, error) {
	if !a.learn(knowsKey) {
		return a.apiKey, a.keyErr
	}
	key, same := "", true
	if a.id.apiKey.lower != "" {
		for _, line := range a.endToEnd(a.id.apiKey) {
			key, same = agree(key, trim(line), same)
		}
	}
	if a.id.config.APIKeyQuery != "" {
		p := a.parameters(a.id.config.APIKeyQuery)
		for value, ok := p.next(); ok; value, ok = p.next() {
			key, same = agree(key, value, same)
		}
		if p.odd {
			a.keyErr = malformed("API key", "", "no semicolon in it, and no escape that is none: not all read it in the same way")
			return "", a.keyErr
		}
	}
	if !same {
		a.keyErr = malformed("API key", "", "it once; there are several that differ")
		return "", a.keyErr
	}
	a.apiKey = a.id.bound(key)
	return a.apiKey, nil
}

// agree adds a value to those that must be the same. Empty ones do not count.
func agree(known, value string, same bool) (string, bool) {
	if value == "" {
		return known, same
	}
	if known == "" {
		return value, same
	}
	return known, same && known == value
}
