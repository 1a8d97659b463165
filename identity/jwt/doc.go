// Package jwt verifies JSON Web Tokens (RFC 7519) for the attributes jwt.<claim> and user.
//
//	tokens, err := jwt.New(jwt.Config{
//		JWKSURL:  "https://login.example.com/.well-known/jwks.json",
//		Issuer:   "https://login.example.com/",
//		Audience: []string{"https://api.example.com"},
//	})
//	if err != nil { ... }
//	defer tokens.Close()
//	id, err := identity.New(identity.Config{Tokens: tokens})
//
// A [Verifier] has its keys from a URL, from a file, or is one shared secret. It can also be told not to verify, for a
// service behind a gateway that has done so: then claims are what the token says, and they name no user.
//
// # What is believed
//
// Tokens in the compact form, signed by one of Config.Algorithms with a key that is made for it: RSA of 2048 to 8192 bits,
// ECDSA on the curve that belongs to the algorithm, Ed25519, or HMAC with a secret at least as long as its hash. Which
// algorithms are allowed is fixed by the configuration, never by the token, and "none" is not among them; a public key is
// never used as the secret of an HMAC. The token may name its key by kid, and nothing else in its header is followed: no
// URL, no key, no certificate. A header with crit is refused, as are encrypted tokens.
//
// Then iss must be Config.Issuer and aud must have one of Config.Audience, where these are set; exp must be there and ahead
// (unless Config.NoExpiry), and nbf behind, give or take Config.Leeway. A token that fails is as good as none: its request
// has no claims, and the rules say what then happens. [identity.Attributes.TokenError] says why.
//
// # Claims
//
// A claim is text: a string as it is, a number as it is written, true or false. A list of one element is that element;
// longer ones, and objects, are none. A claim in an object is named with dots, jwt.realm.tenant; a claim whose own name has
// dots comes first.
//
// # Keys
//
// Verify never waits. Keys are read by a goroutine of the Verifier: at the start, then every Config.Refresh, and when a
// token names a key that is not known, though at most every 10 seconds. If that fails, the keys that are known stay for
// Config.MaxStale, and it is tried again, ever more slowly. A set of keys may have 1 MiB and 100 keys. The URL must be
// https, and is not followed when it redirects. Tokens that come before the first keys do fail; [Verifier.Wait] waits for
// these.
//
// # Speed
//
// Verifying takes 30 to 150 µs, so a token that was verified is remembered by its SHA-256, with its claims, until it
// expires, another one takes its place, or the keys change: at most 4096 of them. Looking one up allocates nothing. Tokens
// that are forged are not remembered, and cost that time each.
//
// # Why not a library
//
// The cryptography is the standard library's. What is left is to split a token, to choose a key and to compare claims, and
// here every choice that has led to a bypass elsewhere is made by the configuration, in a few hundred lines that are
// fuzzed.
package jwt
