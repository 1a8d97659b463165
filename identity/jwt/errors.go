package jwt

import "errors"

// Reasons why a token is invalid. Errors of Verify wrap one of these.
var (
	ErrMalformed = errors.New("token is malformed")
	ErrAlgorithm = errors.New("token is signed by an algorithm that is not allowed")
	ErrKey       = errors.New("token is signed with a key that is not known")
	ErrNoKeys    = errors.New("no keys to verify tokens with")
	ErrSignature = errors.New("token's signature is wrong")
	ErrExpired   = errors.New("token has expired")
	ErrNotYet    = errors.New("token is not valid yet")
	ErrIssuer    = errors.New("token is from another issuer")
	ErrAudience  = errors.New("token is for another audience")
)
