package identity

import (
	"net/netip"
	"net/url"

	"github.com/headgate/headgate"
)

// Attributes are the attributes of one request. The zero value has no attributes; [Identifier.Read], ReadCall and
// ReadValues set them. Reuse Attributes for further requests; values that they have returned stay valid. They are not
// safe for concurrent use.
type Attributes struct {
	identifier *Identifier

	requestParts
	attributeCache

	fromValues bool             // the attributes are in pairs, because ReadValues was called; there is no request
	pairs      []attributeValue // set by ReadValues
}

// requestParts are the parts of a request from which attributes are read.
type requestParts struct {
	header    map[string][]string
	lowerCase bool // the names in header are in lower case
	method    string
	rawHost   string
	remote    string
	url       *url.URL
	rawPath   string // the path if url is nil
}

// An attributeCache holds the results of lookups. lookedUp says which fields are set.
type attributeCache struct {
	lookedUp  lookups
	fromProxy bool
	hopByHop  hopByHopHeaders
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

// lookups is the set of attributes that have been looked up, whether or not there is a value.
type lookups uint16

const (
	lookupClient lookups = 1 << iota
	lookupUser
	lookupKey
	lookupBearer
	lookupHost
	lookupPath
	lookupToken
	lookupAuthorization
)

// hasRequest reports whether the attributes are read from a request.
func (a *Attributes) hasRequest() bool { return a.identifier != nil && !a.fromValues }

// firstLookup reports whether an attribute has not been looked up yet, and records the lookup.
func (a *Attributes) firstLookup(attribute lookups) bool {
	if a.lookedUp&attribute != 0 {
		return false
	}
	a.lookedUp |= attribute
	return true
}

// Reset removes the attributes and the reference to the request. Read, ReadCall and ReadValues call it first.
func (a *Attributes) Reset() {
	clear(a.pairs)
	*a = Attributes{pairs: a.pairs[:0]}
}

// Get returns the value of an attribute, and whether there is one. An empty value counts as missing.
func (a *Attributes) Get(attr headgate.Attribute) (value string, ok bool) {
	switch {
	case a.identifier == nil:
	case a.fromValues:
		value = a.getValue(attr)
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
		return a.identifier.hashIfLong(a.method)
	case headgate.AttrHost:
		host, _ := a.findHost()
		return host
	case headgate.AttrPath:
		path, _ := a.findPath()
		return path
	case headgate.AttrSegment:
		path, _ := a.findPath()
		return a.identifier.hashIfLong(segment(path, attr.Name))
	case headgate.AttrHeader:
		return a.headerValue(attr.Name)
	case headgate.AttrCookie:
		return a.cookie(attr.Name)
	case headgate.AttrQuery:
		return a.query(attr.Name)
	case headgate.AttrJWT:
		return a.claim(attr.Name)
	default:
		return a.identifier.configuredValue(attr.Kind)
	}
}

// configuredValue returns the value of an attribute that is the same for all requests.
func (ident *Identifier) configuredValue(kind headgate.AttributeKind) string {
	switch kind {
	case headgate.AttrRegion:
		return ident.config.Region
	case headgate.AttrNamespace:
		return ident.config.Namespace
	default:
		return ""
	}
}

// Addr returns the client's address, without zone and not mapped to IPv6, or the zero Addr if it is unknown. The
// attribute ip may have only the network of this address.
func (a *Attributes) Addr() netip.Addr {
	if a.hasRequest() {
		a.findClient()
	}
	return a.client
}

// Peer returns the remote address of the connection, which is the client or the nearest proxy.
func (a *Attributes) Peer() netip.Addr {
	if a.hasRequest() {
		a.findClient()
	}
	return a.peer
}

// FromProxy reports whether the request comes from a trusted proxy. Headers that only a proxy may set are ignored in
// other requests.
func (a *Attributes) FromProxy() bool {
	if a.hasRequest() {
		a.findClient()
	}
	return a.fromProxy
}

// Validate returns a *RequestError if the request must be refused with 400: its host or path is invalid; its path,
// query or cookies are too long; it has several different credentials; or it tells proxies to remove a header that
// identifies the client. The attributes of the malformed part are missing. Call Validate first, because rules for a
// host or path do not match a request without one.
func (a *Attributes) Validate() error {
	if !a.hasRequest() {
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
