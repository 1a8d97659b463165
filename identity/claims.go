package identity

// Claims are what a token says of its bearer.
type Claims interface {
	// Claim returns a claim as text. An empty one is none.
	Claim(name string) (value string, ok bool)
	// Verified reports whether the token's signature was checked. Claims that were not name no user.
	Verified() bool
}

// A TokenVerifier reads tokens. It is called for a request whose claims are asked for, on its path: it must not wait for
// anyone. It is safe for concurrent use. Package identity/jwt has one.
type TokenVerifier interface {
	// Verify returns what the token says, or why it is not to be believed.
	Verify(token string) (Claims, error)
}

// token verifies the token of the request, once.
func (a *Attributes) token() (Claims, error) {
	if a.learn(knowsToken) && a.id.tokens != nil {
		if token := a.bearerToken(); token != "" {
			a.claims, a.tokenErr = a.id.tokens.Verify(token)
			if a.tokenErr != nil {
				a.claims = nil
			}
		}
	}
	return a.claims, a.tokenErr
}

// claim returns a claim of the request's token.
func (a *Attributes) claim(name string) string {
	claims, err := a.token()
	if err != nil || claims == nil {
		return ""
	}
	value, ok := claims.Claim(name)
	if !ok {
		return ""
	}
	return a.id.bound(value)
}

// TokenError returns why the request's bearer token is not believed; nil if it is, if there is none, and if nobody
// verifies tokens. Such a request goes on without claims: who it comes from is decided by what else it says.
func (a *Attributes) TokenError() error {
	if !a.reads() {
		return nil
	}
	_, err := a.token()
	return err
}

// Lasting tells that nothing was asked so far whose answer changes with time, as that to whether a token is still good: another
// request that says the same on the same connection would be the same client's.
func (a *Attributes) Lasting() bool { return a.knows&knowsToken == 0 || a.id.tokens == nil }
