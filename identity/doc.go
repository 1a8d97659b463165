// Package identity reads the attributes of requests that rules use, such as those that identify the client.
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
// An attribute is looked up when it is first needed. [Identifier.ReadCall] reads the attributes of a gRPC call. A
// program that knows attributes without a request passes them to [Identifier.ReadValues].
//
// A client must not be able to choose its identity, or to have different identities for the rules and for the service.
// If a value could be read in two ways, the attribute is missing or [Attributes.Validate] refuses the request. But a
// client can choose api_key, bearer, the user of Basic, cookies, headers and the query, and send new ones with each
// request. So limit ip as well.
//
// # Attributes
//
//	ip           the client's network: 203.0.113.9, or 2001:db8:1:2::/64. By default this is the network of the
//	             connection. If the connection comes from a trusted proxy, the forwarding header is read from right to
//	             left: the client is the first address that is not a trusted proxy, or the address at position
//	             Config.Hops. Without a valid address it is the proxy nearest to it. [Attributes.Addr] returns the
//	             address itself. Package identity/proxyproto reads the PROXY protocol.
//	user         the claim sub of a verified token; otherwise X-User-ID from a trusted proxy; otherwise the user of Basic
//	             with the client's address, "alice from 192.0.2.1", because the password is not checked. Config.UserFrom
//	             selects these sources.
//	api_key      X-API-Key, or the header or query parameter that Config names
//	bearer       a keyed hash of the token in Authorization: Bearer, even if the token is invalid
//	jwt.<claim>  a claim of this token, if Config.Tokens can verify it; package identity/jwt does this
//	host         in lower case, without port and final dot
//	path         in the form of [CanonicalPath]; segment.1 is its first segment
//	method       as the client sends it; rules convert it to upper case
//	header.<name>, cookie.<name>, query.<name>
//	             without white space around the value. Several lines of a header are one list. Of repeated cookies and
//	             parameters the first value is used, unless Config.Repeated says otherwise; rules deny requests with
//	             ambiguous values, as [Attributes.Repeats] describes. header.authorization, header.proxy-authorization
//	             and header.cookie are hashes. Headers that the header Connection lists are missing.
//
// # Credentials
//
// Services read credentials leniently, so one credential could be written in many ways. Here each credential has one
// form:
//
//	API keys     one word of visible ASCII characters without comma, semicolon and quotes
//	Bearer       one such word, without padding (=) at its end; all parts of a JWT are canonical base64url
//	Basic        base64 with or without padding; the user without white space around it. Text without a colon is a user
//	             without a password, text that is not UTF-8 is ISO 8859-1, and control characters are malformed.
//
// All other text after Bearer or Basic is malformed. Several different Authorization headers are malformed, too, and so
// is another scheme whose text contains Basic or Bearer. Other schemes do not identify a client. Credentials are
// case-sensitive.
//
// # Long values
//
// A value longer than Config.MaxValue is replaced by its hash, and a value longer than 64 KiB is missing. A path, query
// or Cookie header that is too long is malformed. An empty value counts as missing.
package identity
