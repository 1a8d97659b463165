package identity

import (
	"cmp"
	"crypto/cipher"
	"crypto/rand"
	"hash/maphash"
	"net/http"
	"net/netip"
)

// An Identifier reads the attributes of requests. It is safe for concurrent use.
type Identifier struct {
	config           Config
	trusted          networks
	format           forwardingFormat
	forwardingHeader headerName // empty if no proxy is trusted
	apiKey           headerName // empty if no header has the API key
	user             headerName
	userFrom         []UserSource
	tokens           TokenVerifier
	names            headerNames
	networkTexts     networkTexts
	hasher           *hasher
	sealer           cipher.AEAD // nil if no Secret was given
	secondSealer     cipher.AEAD // nil if no SecondSecret was given

	untrusted untrustedSampler
}

// New returns an Identifier. The error is that of Config.Validate.
func New(config Config) (*Identifier, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	id := &Identifier{
		config:   config,
		trusted:  newNetworks(config.TrustedProxies),
		user:     nameOf(config.UserHeader),
		userFrom: append([]UserSource(nil), config.UserFrom...),
		tokens:   config.Tokens,
	}
	if config.trustsProxies() {
		id.forwardingHeader = nameOf(cmp.Or(config.ForwardingHeader, DefaultForwardingHeader))
		id.format = formatOf(id.forwardingHeader.canonical)
	}
	if config.APIKeyHeader != "" {
		id.apiKey = nameOf(config.APIKeyHeader)
	}
	if len(id.userFrom) == 0 {
		id.userFrom = []UserSource{UserFromToken, UserFromHeader, UserFromBasicAndIP}
	}
	secret := append([]byte(nil), config.Secret...)
	if len(secret) == 0 {
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails
	}
	if len(config.Secret) > 0 {
		id.sealer = newSealer(secret)
	}
	if len(config.SecondSecret) > 0 {
		id.secondSealer = newSealer(config.SecondSecret)
	}
	id.config.Secret, id.config.SecondSecret = nil, nil
	id.hasher = newHasher(secret)
	id.networkTexts.seed = maphash.MakeSeed()
	return id, nil
}

// Read makes dst the attributes of a request. Each attribute is looked up when it is first needed, so the request must
// not change while dst is used.
func (ident *Identifier) Read(r *http.Request, dst *Attributes) {
	dst.Reset()
	dst.identifier = ident
	dst.requestParts = requestParts{
		header: r.Header, method: r.Method, rawHost: r.Host, remote: r.RemoteAddr, url: r.URL,
	}
}

// A Call is a request that is not served by net/http, such as a gRPC call.
type Call struct {
	// Peer is the address of the connection, with or without a port.
	Peer string
	// Method is the HTTP method: POST for gRPC.
	Method string
	// Host is the authority.
	Host string
	// Path is the path as it is sent, such as /package.Service/Method.
	Path string
	// Header has the header fields or metadata. Its names are in lower case.
	Header map[string][]string
}

// ReadCall is like Read, but makes dst the attributes of a call.
func (ident *Identifier) ReadCall(c *Call, dst *Attributes) {
	dst.Reset()
	dst.identifier = ident
	dst.requestParts = requestParts{
		header: c.Header, lowerCase: true, method: c.Method, rawHost: c.Host, remote: c.Peer, rawPath: c.Path,
	}
}

// IsProxy reports whether a peer with this address counts as a trusted proxy. If only Config.Hops is set, every peer
// does.
func (ident *Identifier) IsProxy(addr netip.Addr) bool {
	return ident.config.trustsProxies() && (len(ident.trusted) == 0 || ident.Trusts(addr))
}

// Trusts reports whether an address is in Config.TrustedProxies. It is for callers that have no request yet.
func (ident *Identifier) Trusts(addr netip.Addr) bool {
	return addr.IsValid() && ident.trusted.contains(addr.WithZone("").Unmap())
}
