// Package identity reads from a request the attributes that rules use, above all those that identify the client.
//
//	id, err := identity.New(identity.Config{}) // set TrustedProxies behind a proxy
//	if err != nil {
//		return err
//	}
//	var who identity.Attributes // reuse it for the next request
//	id.Read(r, &who)
//	if err := who.Validate(); err != nil {
//		return err // respond with 400
//	}
//	fmt.Println(who.Get(headgate.Attribute{Kind: headgate.AttrIP}))
//
// An attribute is looked up when it is first needed. [Identifier.ReadCall] reads gRPC calls, and
// [Identifier.ReadValues] takes attributes that a caller states, in the same form.
//
// A client must not be able to choose its identity, or to have another one here than at the service. So a value that
// could be read in two ways is missing, or [Attributes.Validate] refuses the request. The client still chooses api_key,
// bearer, the user of Basic, cookies, headers and the query, and could send new ones with each request, so limit ip as
// well.
//
//	ip           the client's network: 203.0.113.9, or 2001:db8:1:2::/64. It is that of the connection or, from a trusted
//	             proxy, of the forwarding header, read from the right: the first address that is no trusted proxy, or the
//	             one at Config.Hops. If there is no valid address, it is the nearest known one. [Attributes.Addr] has the
//	             address itself. Package identity/proxyproto reads the PROXY protocol.
//	user         the sub of a verified token; else X-User-ID from a trusted proxy; else the user of Basic with the
//	             client's address, "alice from 192.0.2.1", because the password is not checked. See Config.UserFrom.
//	api_key      X-API-Key, or by Config
//	bearer       a keyed hash of the token in Authorization: Bearer, valid or not
//	jwt.<claim>  a claim of that token, by Config.Tokens: see package identity/jwt
//	host         in lower case, without port and final dot
//	path         by [CanonicalPath]; segment.1 is its first segment
//	method       as it is sent; rules convert it to upper case
//	header.<name>, cookie.<name>, query.<name>
//	             without white space around them. Several header lines are one list. Of repeated cookies and parameters
//	             the first counts, or by Config.Repeated; rules deny ambiguous ones: see [Attributes.Repeats].
//	             header.authorization, header.proxy-authorization and header.cookie are hashes. Headers that Connection
//	             names are missing.
//
// Each credential has one form here, because services read them leniently:
//
//	API keys     one word of visible ASCII characters without comma, semicolon and quotes
//	Bearer       one such word, without padding (=) at its end; all parts of a JWT are canonical base64url
//	Basic        base64 with or without padding; the user without white space around it. Text without a colon is a user
//	             without a password, text that is not UTF-8 is ISO 8859-1, and control characters are malformed.
//
// All other text after Bearer or Basic is malformed, and so are several different Authorization headers, and one of
// another scheme that contains Basic or Bearer. Other schemes identify no client. Case matters in all of them.
//
// A value longer than Config.MaxValue is replaced by its hash, and one longer than 64 KiB is missing. A path, query or
// Cookie header that is too long is malformed. An empty value counts as missing.
package identity
