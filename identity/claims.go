package identity

// Claims are the claims of a token.
type Claims interface {
	// Claim returns a claim as text. An empty claim counts as missing.
	Claim(name string) (value string, ok bool)
	// Verified reports whether the token's signature was verified. Unverified claims do not identify a user.
	Verified() bool
}

// A TokenVerifier verifies bearer tokens. It must be safe for concurrent use, and must not block, because it is called
// while a request is decided. jwt.Verifier in package identity/jwt implements it.
type TokenVerifier interface {
	// Verify returns the claims of a valid token. Otherwise the error says why the token is invalid.
	Verify(token string) (Claims, error)
}

// token returns the claims of the bearer token, which is verified once per request.
func (a *Attributes) token() (Claims, error) {
	if a.firstLookup(lookupToken) && a.identifier.tokens != nil {
		if token := a.bearerToken(); token != "" {
			a.claims, a.tokenErr = a.identifier.tokens.Verify(token)
			if a.tokenErr != nil {
				a.claims = nil
			}
		}
	}
	return a.claims, a.tokenErr
}

// claim returns a claim of the token, or "".
func (a *Attributes) claim(name string) string {
	claims, err := a.token()
	if err != nil || claims == nil {
		return ""
	}
	value, ok := claims.Claim(name)
	if !ok {
		return ""
	}
	return a.identifier.hashIfLong(value)
}

// TokenError returns an error that says why the request's bearer token is invalid. It returns nil if the token is valid
// or missing, or if Config.Tokens is not set. A request with an invalid token has no claims; its other attributes are
// not affected.
func (a *Attributes) TokenError() error {
	if !a.hasRequest() {
		return nil
	}
	_, err := a.token()
	return err
}
