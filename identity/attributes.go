package identity

import (
	"net/netip"
	"net/url"

	"github.com/headgate/headgate"
)

// Attributes are the attributes of one request. The zero value has none; [Identifier.Read], ReadCall and ReadValues
// fill it. It should be reused, and is not safe for concurrent use. The values that it returns stay valid.
type Attributes struct {
	id *Identifier

	requestParts
	attributeCache

	given bool // pairs has the attributes, and there is no request
	pairs []pair
}

// requestParts are the parts of a request that attributes are read from.
type requestParts struct {
	header   map[string][]string
	lower    bool // the names in header are in lower case
	method   string
	hostSent string
	remote   string
	url      *url.URL
	pathSent string // if url is nil
}

// An attributeCache has the attributes that have been looked for.
type attributeCache struct {
	found     lookups
	fromProxy bool
	named     nomination
	peer      netip.Addr
	client    netip.Addr
	ip        string
	auth      authorization
	user      string
	apiKey    string
	keyErr    error
	bearer    string
	host      string
	hostErr   error
	path      string
	pathErr   error
	claims    Claims
	tokenErr  error
}

// lookups are the attributes that have been looked for, whether there is a value or not.
type lookups uint16

const (
	foundClient lookups = 1 << iota
	foundUser
	foundKey
	foundBearer
	foundHost
	foundPath
	foundToken
	foundAuthorization
)

// reads reports whether there is a request to read.
func (a *Attributes) reads() bool { return a.id != nil && !a.given }

// firstTime reports whether an attribute has not been looked for yet, and marks it.
func (a *Attributes) firstTime(f lookups) bool {
	if a.found&f != 0 {
		return false
	}
	a.found |= f
	return true
}

// Reset releases the request, so that it is not kept in memory. So does filling the attributes again.
func (a *Attributes) Reset() {
	clear(a.pairs)
	*a = Attributes{pairs: a.pairs[:0]}
}

// Get returns the value of an attribute, and whether there is one. A value is never empty: an empty one counts as
// missing.
func (a *Attributes) Get(attr headgate.Attribute) (value string, ok bool) {
	switch {
	case a.id == nil:
	case a.given:
		value = a.getGiven(attr)
	default:
		value = a.get(attr)
	}
	return value, value != ""
}

func (a *Attributes) get(attr headgate.Attribute) string {
	switch attr.Kind {
	case headgate.AttrIP:
		a.findClient()
		return a.ip
	case headgate.AttrUser:
		return a.findUser()
	case headgate.AttrAPIKey:
		key, _ := a.findKey()
		return key
	case headgate.AttrBearer:
		return a.findBearer()
	case headgate.AttrMethod:
		return a.id.bound(a.method)
	case headgate.AttrHost:
		host, _ := a.findHost()
		return host
	case headgate.AttrPath:
		path, _ := a.findPath()
		return path
	case headgate.AttrSegment:
		path, _ := a.findPath()
		return a.id.bound(segment(path, attr.Name))
	case headgate.AttrHeader:
		return a.headerValue(attr.Name)
	case headgate.AttrCookie:
		return a.cookie(attr.Name)
	case headgate.AttrQuery:
		return a.query(attr.Name)
	case headgate.AttrJWT:
		return a.claim(attr.Name)
	default:
		return a.id.constant(attr.Kind)
	}
}

// constant returns the value of an attribute that is the same for all requests.
func (id *Identifier) constant(kind headgate.AttributeKind) string {
	switch kind {
	case headgate.AttrRegion:
		return id.config.Region
	case headgate.AttrNamespace:
		return id.config.Namespace
	default:
		return ""
	}
}

// Addr returns the client's address, of which the attribute ip may have only the network. It is not mapped and has no
// zone, and is the zero Addr if no address is known.
func (a *Attributes) Addr() netip.Addr {
	if a.reads() {
		a.findClient()
	}
	return a.client
}

// Peer returns the address of the connection: that of the client, or of the nearest proxy.
func (a *Attributes) Peer() netip.Addr {
	if a.reads() {
		a.findClient()
	}
	return a.peer
}

// FromProxy reports whether the request comes from a trusted proxy, so that headers which only proxies may send count.
func (a *Attributes) FromProxy() bool {
	if a.reads() {
		a.findClient()
	}
	return a.fromProxy
}

// Malformed returns, as a *RequestError, why the request must get a 400: its host or path is invalid; its path, query
// or cookies are too long; it has several different credentials; or it tells proxies to remove a header that identifies
// the client. The attribute is then missing. Call Malformed first, because rules for a host or path do not match a
// request without one.
func (a *Attributes) Malformed() error {
	if !a.reads() {
		return nil
	}
	if err := a.checkConnection(); err != nil {
		return err
	}
	if _, err := a.findHost(); err != nil {
		return err
	}
	if _, err := a.findPath(); err != nil {
		return err
	}
	if err := a.checkQuery(); err != nil {
		return err
	}
	if _, err := a.cookies(); err != nil {
		return err
	}
	if err := a.findAuthorization().err; err != nil {
		return err
	}
	_, err := a.findKey()
	return err
}
