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
// A [Verifier] gets its keys from a URL or a file, or has one shared secret. Behind a gateway that has verified the
// tokens, it can also accept them without verification; claims of such tokens do not identify a user.
//
// # Valid tokens
//
// A token must be in the compact form, and be signed with one of Config.Algorithms. The key must be suitable: RSA of
// 2048 to 8192 bits, ECDSA on the algorithm's curve, Ed25519, or an HMAC secret at least as long as the hash. The token
// cannot choose an algorithm that the configuration does not allow. The algorithm "none" is never allowed, and a public
// key is never used as an HMAC secret. The header of the token may name the key (kid). URLs, keys and certificates in
// the header are ignored. Tokens with a crit header and encrypted tokens are refused.
//
// If Config.Issuer is set, the claim iss must equal it. If Config.Audience is set, aud must contain one of its values.
// exp is required, unless Config.NoExpiry is set. exp must be in the future and nbf in the past, with a tolerance of
// Config.Leeway. A request with an invalid token has no claims; [identity.Attributes.TokenError] returns the reason.
//
// # Claims
//
// The value of a claim is text: a string, a number as it is written, true or false. A list of one element is read as
// that element; longer lists and objects count as missing. The attribute of a claim in an object has dots in its name,
// such as jwt.realm.tenant. A claim whose own name contains dots takes precedence.
//
// # Keys
//
// Verify never blocks. A goroutine of the Verifier reads the keys at the start and then every Config.Refresh. It also
// reads them when a token names an unknown key, but at most every 10 seconds. If reading fails, it is retried with
// growing pauses, and the known keys stay in use for Config.MaxStale. A key set may have up to 1 MiB and 100 keys. The
// URL must have https, and redirects are not followed. Tokens are refused until the first keys have been read;
// [Verifier.Wait] waits for this.
//
// Verifying a token takes 30 to 150 µs, so up to 4096 verified tokens are cached with their claims. The cache finds a
// token by its SHA-256. Invalid tokens are not cached.
//
// The cryptography comes from the standard library. Fuzz tests cover the parsing of tokens, the choice of keys and the
// comparison of claims.
package jwt
