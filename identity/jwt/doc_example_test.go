package jwt_test

import (
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/identity/jwt"
)

// packageExample is the example of the package comment.
func packageExample() (*identity.Identifier, error) {
	tokens, err := jwt.New(jwt.Config{
		JWKSURL:  "https://login.example.com/.well-known/jwks.json",
		Issuer:   "https://login.example.com/",
		Audience: []string{"https://api.example.com"},
	})
	if err != nil {
		return nil, err
	}
	return identity.New(identity.Config{Tokens: tokens})
}

var _ = packageExample
