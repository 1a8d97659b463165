// Package jwt verifies JSON Web Tokens (RFC 7519) for the attributes jwt.<claim> and user.
//
//	tokens, err := jwt.New(jwt.Config{
//		JWKSURL:  "https://login.example.com/.well-known/jwks.json",
//		Issuer:   "https://login.example.com/",
//		Audience: []string{"https://api.example.com"},
//	})
//	if err != nil {
//		return nil, err
//	}
//	return identity.New(identity.Config{Tokens: tokens})
//
// A [Verifier] gets its keys from a URL or a file, or has one shared secret. It can also accept tokens unverified, for
// a service behind a gateway that has verified them; such claims do not identify a user.
//
// # Valid tokens
//
// A token has the compact form, and is signed by one of Config.Algorithms with a suitable key: RSA of 2048 to 8192
// bits, ECDSA on the algorithm's curve, Ed25519, or HMAC with a secret at least as long as its hash. The
// configuration decides which algorithms are allowed, never the token. The algorithm "none" is never allowed, and a
// public key is never used as an HMAC secret. The token may name its key by kid; URLs, keys and certificates in its
// header are ignored. A header with crit is refused, as are encrypted tokens.
//
// iss must equal Config.Issuer, and aud must contain one of Config.Audience, if these are set. exp is required,
// unless Config.NoExpiry is set. exp must be in the future and nbf in the past, with a tolerance of Config.Leeway. A
// request with an invalid token has no claims; [identity.Attributes.TokenError] returns the reason.
//
// # Claims
//
// A claim is text: a string, a number as it is written, true or false. A list of one element is that element; longer
// lists and objects count as missing. A claim in an object is named with dots, jwt.realm.tenant; a claim whose own name
// contains dots takes precedence.
//
// # Keys
//
// Verify never blocks. A goroutine of the Verifier reads the keys: at the start, then every Config.Refresh, and when a
// token names an unknown key, but at most every 10 seconds. If reading fails, the known keys stay in use for
// Config.MaxStale, and reading is retried with growing pauses. A key set may have 1 MiB and 100 keys. The URL must be
// https, and redirects are not followed. Tokens are refused until the first keys were read; [Verifier.Wait] waits for
// that.
//
// Verifying takes 30 to 150 µs, so up to 4096 verified tokens are cached by their SHA-256, with their claims, until
// they expire, are replaced, or the keys change. Invalid tokens are not cached.
//
// The cryptography comes from the standard library. Parsing tokens, choosing keys and comparing claims takes a
// few hundred lines, which are fuzzed. Choices that have led to bypasses in other libraries, such as that of the
// algorithm, are made by the configuration and not by the token.
package jwt
