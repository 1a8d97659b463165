package identity

import (
	"net/netip"
	"net/url"

	"github.com/headgate/headgate"
)

// Attributes are what is known of one request. The zero value knows nothing; [Identifier.Read] and its kin fill it. It is
// meant to be used again and again, and not by two goroutines at once. The values it returns stay valid.
type Attributes struct {
	id *Identifier

	// What was sent.
	header   map[string][]string
	lower    bool // the names in header are in lower case
	method   string
	hostSent string
	remote   string
	url      *url.URL
	pathSent string // if url is nil

	// What was found in it.
	knows     facts
	fromProxy bool
	named     nomination
	peer      netip.Addr
	client    netip.Addr
	ip        string
	auth      authorization
	user      string
	apiKey    string
	bearer    string
	host      string
	path      string
	hostErr   error
	pathErr   error
	keyErr    error
	claims    Claims
	tokenErr  error

	// What was given instead.
	given bool
	pairs []pair
}

// facts are what has been looked for, found or not.
type facts uint16

const (
	knowsClient facts = 1 << iota
	knowsUser
	knowsKey
	knowsBearer
	knowsHost
	knowsPath
	knowsToken
	knowsAuthorization
)

// reads reports whether there is a request to read.
func (a *Attributes) reads() bool { return a.id != nil && !a.given }

// learn reports whether the fact must still be looked for.
func (a *Attributes) learn(f facts) bool {
	if a.knows&f != 0 {
		return false
	}
	a.knows |= f
	return true
}

// Reset forgets the request, so that it is not kept in memory. Filling the attributes again does so too.
func (a *Attributes) Reset() {
	clear(a.pairs)
	*a = Attributes{pairs: a.pairs[:0]}
}

// Get returns the value of an attribute, and whether there is one. A value is never empty: what is sent empty is as good as
// not sent.
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

// constant returns the attributes that all requests have in common.
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

// Addr returns the client's address itself, of which the attribute ip may be but the network: for rules that name
// networks. It is not mapped and has no zone, and is the zero Addr if no address is known.
func (a *Attributes) Addr() netip.Addr {
	if a.reads() {
		a.findClient()
	}
	return a.client
}

// Peer returns the address of who is connected: the client, or the nearest proxy.
func (a *Attributes) Peer() netip.Addr {
	if a.reads() {
		a.findClient()
	}
	return a.peer
}

// FromProxy reports whether the request comes from a trusted proxy, so that what only a proxy may say can be believed.
func (a *Attributes) FromProxy() bool {
	if a.reads() {
		a.findClient()
	}
	return a.fromProxy
}

// Malformed returns, as a *RequestError, why the request is to be answered with 400: its host or path is not one, its
// path, query or cookies are too long, it has credentials that differ, or it tells proxies to remove what says who is
// asking. The attribute in question is missing then. Ask it before anything else, since rules for a host or path do not match a request that has none.
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
