// Package identity tells who is asking: it reads from a request the attributes that rules go by.
//
//	proxies, err := identity.ParseNetworks("10.0.0.0/8")
//	if err != nil { ... }
//	id, err := identity.New(identity.Config{TrustedProxies: proxies})
//	if err != nil { ... }
//
//	var who identity.Attributes // use it again for the next request
//	id.Read(r, &who)
//	if err := who.Malformed(); err != nil { ... } // answer 400
//	ip, ok := who.Get(headgate.Attribute{Kind: headgate.AttrIP})
//
// An attribute is looked for when it is asked for, and then remembered for this request. What is there as it is needs no
// allocation. [Identifier.ReadCall] reads calls of gRPC, and [Identifier.ReadValues] takes what someone says of his own
// client, in the same form.
//
// # The rule behind all rules
//
// A client must not be able to choose who he is, or to be seen here as another than by the service. So what may be read in
// two ways is not read in one of them: it is missing, or the request is [Attributes.Malformed]. Some attributes are the
// client's word all the same, and it is the service that checks them: api_key, bearer, the user of Basic, cookies, headers
// and the query. Who makes up a new one for each request is a new client each time, so put a limit on ip beside them.
//
// # ip: the address
//
// By default the address is that of the connection, and no header is read. Behind proxies, Config says whom to believe:
//
//	TrustedProxies   their networks. The forwarding header is read from the right, over all its lines. Each proxy has added
//	                 who was connected to it, so the first who is not a trusted proxy is the client; what is further left
//	                 he may have sent himself, and it is not looked at. If all are trusted, it is the leftmost.
//	Hops             how many proxies there are, if their addresses are not known: the client is the element that the
//	                 outermost added. If there are fewer, the request came another way: it is who is connected.
//	ForwardingHeader X-Forwarded-For, Forwarded (RFC 7239), or one that holds a single address. No other one is read.
//
// An element that is no address ("unknown", a hidden name, anything else) ends the walk: the client is then the nearest
// address that is known, that of the proxy which said so. With Hops or a single address it is who is connected. Ports and
// zones are dropped, and IPv4 mapped into IPv6 is IPv4. Empty elements do not count, and at most Config.MaxForwarded are
// looked at.
//
// The value is the client's network: 203.0.113.9 as it is, 2001:db8:1:2:3::4 as 2001:db8:1:2::/64, because who has one
// address of such a network has all. [Attributes.Addr] has the address itself. Without one (a socket of Unix) there is none.
// Package identity/proxyproto reads the PROXY protocol, which makes the client's address that of the connection.
//
// # user, api_key, bearer and jwt.<claim>: the credentials
//
//	user         the sub of a verified token; else X-User-ID, from trusted proxies only; else the user of Authorization:
//	             Basic and the client's address, "alice from 192.0.2.1", since the password is never looked at.
//	             Config.UserFrom changes this.
//	api_key      X-API-Key, or what Config names. Several that differ are malformed.
//	bearer       a keyed hash of the token in Authorization: Bearer, 144 bits as 24 characters, valid or not. The token
//	             itself is nowhere.
//	jwt.<claim>  a claim of that token, by Config.Tokens: see package identity/jwt.
//
// Services read credentials leniently, so one credential could be written in many ways. Each has one form here:
//
//	API keys     one word of visible ASCII characters without comma, semicolon and quotes.
//	Bearer       one such word, in any case and after any number of spaces or tabs. Padding (=) at its end does not count. A
//	             token of JOSE (JWT) must be canonical base64url in all its parts.
//	Basic        base64 with or without padding. White space around the user does not count, text without a colon is a
//	             user without a password, text that is not UTF-8 is ISO 8859-1, and control characters are malformed.
//
// All other text behind Bearer or Basic is malformed, and so are an Authorization header that is repeated and differs, and
// one of another scheme that has Basic or Bearer further inside. Other schemes, and a scheme without a credential, name
// nobody: the rule's fallback counts. The case of letters matters in all of them; some services ignore it.
//
// # host and path: what is asked for
//
//	host         in lower case, without port and final dot. What is no name and no address is malformed.
//	path         by [CanonicalPath], as the service sees it if it is sent on in this form. Encoded slashes are refused, and
//	             so are parameters (a semicolon), unless Config.Paths says what they are to the service.
//	segment.<n>  of that path; the first is segment.1
//	method       as it is sent. Rules take it in upper case, in conditions and in keys: many services take post for POST.
//
// # header.<name>, cookie.<name> and query.<name>
//
// Of a header that is repeated, all lines are one value with ", " between them, as RFC 9110 has it. Of cookies and of
// parameters of the query the first counts, or the one that Config.Repeated names. [Attributes.Repeats] tells where they
// differ, or where services read one in several ways (a semicolon in a parameter, a quote in a cookie, a control character, an
// escape that is none): under rules that count by it such a request is denied, since its sender could be another client each
// time. All values are without the white space around them, of Unicode too. Cookies are without the quotes around them, and
// escapes in them are read, as some services do.
// header.authorization, header.proxy-authorization and header.cookie are hashes,
// as they hold secrets; the first is that of the credential in its one form. A header that Connection names is missing, since the service will not see it either; a request that
// names one which tells who is asking is malformed.
//
// # Bounds
//
// A value that is longer than Config.MaxValue is replaced by its hash, so that it still tells clients apart, and one longer
// than 64 KiB is missing. A path, a query and cookies that are too long are malformed. An empty value is a missing one:
// nobody shares a limit with all who send nothing. What a missing one means, the rule says.
package identity
