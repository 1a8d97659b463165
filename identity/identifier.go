package identity

import (
	"crypto/cipher"
	"crypto/rand"
	"net/http"
	"net/netip"
)

// An Identifier tells of requests who is asking. It is safe for concurrent use.
type Identifier struct {
	config   Config
	trusted  networks
	form     form
	forwards headerName // where proxies name their client; empty if there are none
	apiKey   headerName // empty if not by header
	user     headerName
	userFrom []UserSource
	tokens   TokenVerifier
	names    headerNames
	texts    networkTexts
	hasher   *hasher
	sealer   cipher.AEAD // nil if no Secret was given

	untrusted untrusted
}

// New returns an Identifier. The error is that of Config.Validate.
func New(config Config) (*Identifier, error) {
	config.fill()
	if err := config.check(); err != nil {
		return nil, err
	}
	id := &Identifier{
		config:   config,
		trusted:  newNetworks(config.TrustedProxies),
		user:     nameOf(config.UserHeader),
		userFrom: append([]UserSource(nil), config.UserFrom...),
		tokens:   config.Tokens,
	}
	if config.trusts() {
		id.forwards = nameOf(or(config.ForwardingHeader, DefaultForwardingHeader))
		id.form = formOf(id.forwards.canonical)
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
	id.config.Secret = nil
	id.hasher = newHasher(secret)
	id.texts.init()
	return id, nil
}

// Read makes the attributes those of a request. They are found when they are asked for, and only then; until they are, the
// request must not change. What into held before is forgotten.
func (id *Identifier) Read(r *http.Request, into *Attributes) {
	into.Reset()
	into.id = id
	into.header = r.Header
	into.method = r.Method
	into.hostSent = r.Host
	into.remote = r.RemoteAddr
	into.url = r.URL
}

// A Call is a request that does not come by net/http, such as one of gRPC.
type Call struct {
	// Peer is the address of who is connected, with or without a port.
	Peer string
	// Method is that of HTTP, POST for gRPC.
	Method string
	// Host is the authority that is called.
	Host string
	// Path is the path as it is sent, such as /package.Service/Method.
	Path string
	// Header has the header fields or metadata. Its names are in lower case.
	Header map[string][]string
}

// ReadCall is Read for a call.
func (id *Identifier) ReadCall(c *Call, into *Attributes) {
	into.Reset()
	into.id = id
	into.header = c.Header
	into.lower = true
	into.method = c.Method
	into.hostSent = c.Host
	into.remote = c.Peer
	into.pathSent = c.Path
}

// IsProxy reports whether a peer with this address is believed to forward the requests of others: one of TrustedProxies, or
// any if only Hops is set.
func (id *Identifier) IsProxy(addr netip.Addr) bool {
	return id.config.trusts() && (len(id.trusted) == 0 || id.Trusts(addr))
}

// Trusts reports whether an address is one of a trusted proxy, by TrustedProxies. It is for those who must know before there
// is a request.
func (id *Identifier) Trusts(addr netip.Addr) bool {
	return addr.IsValid() && id.trusted.has(addr.WithZone("").Unmap())
}
