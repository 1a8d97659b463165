package headgate

import (
	"strconv"
	"strings"
)

// An Attribute names a property of a request, such as the client's address, a header or the path. The zero value has
// the kind AttrNone. Attributes are comparable.
type Attribute struct {
	Kind AttributeKind
	// Name is the name of the header, cookie, claim and so on. Header names are in lower case. Name is empty unless
	// Kind.Named reports true.
	Name string
}

// An AttributeKind says which property an Attribute names. In text it is the part before the dot: "header.x-plan".
type AttributeKind uint8

// The kinds of attributes, each with its text form. AttrHeader and the kinds below it have a name.
const (
	AttrNone       AttributeKind = iota
	AttrIP                       // ip: the client's address, or its network
	AttrUser                     // user
	AttrAPIKey                   // api_key
	AttrBearer                   // bearer: a keyed hash of the token
	AttrMethod                   // method
	AttrHost                     // host
	AttrPath                     // path
	AttrRegion                   // region
	AttrNamespace                // namespace
	AttrHeader                   // header.<name>
	AttrCookie                   // cookie.<name>
	AttrQuery                    // query.<name>
	AttrJWT                      // jwt.<claim>
	AttrSegment                  // segment.<number>: of the path, counted from 1
	AttrDescriptor               // descriptor.<key>: a rate limit descriptor of Envoy
	AttrClient                   // client.<name>: a property of a registered client; only conditions of rules use it
	attributeKinds               // the number of kinds
)

var attributeNames = [attributeKinds]string{
	AttrIP: "ip", AttrUser: "user", AttrAPIKey: "api_key", AttrBearer: "bearer", AttrMethod: "method", AttrHost: "host",
	AttrPath: "path", AttrRegion: "region", AttrNamespace: "namespace", AttrHeader: "header", AttrCookie: "cookie",
	AttrQuery: "query", AttrJWT: "jwt", AttrSegment: "segment", AttrDescriptor: "descriptor", AttrClient: "client",
}

// Named reports whether attributes of this kind have a name.
func (k AttributeKind) Named() bool { return k >= AttrHeader && k < attributeKinds }

// String returns the kind as it is written, "" for AttrNone.
func (k AttributeKind) String() string {
	if k < attributeKinds {
		return attributeNames[k]
	}
	return ""
}

// String returns the attribute in the form that ParseAttribute reads.
func (a Attribute) String() string {
	if a.Kind.Named() {
		return a.Kind.String() + "." + a.Name
	}
	return a.Kind.String()
}

// MaxAttributeName is the maximum length of an attribute's name, in bytes.
const MaxAttributeName = 256

// ParseAttribute parses a request attribute, such as "ip" or "header.x-plan". It refuses client.<name>, which is
// a property of a registered client, not of a request. The error is an *InputError.
func ParseAttribute(text string) (Attribute, error) {
	const wantAttribute = "ip, user, api_key, bearer, method, host, path, region, namespace, " +
		"header.<name>, cookie.<name>, query.<name>, jwt.<claim>, segment.<number> or descriptor.<key>"
	kindName, name, hasDot := strings.Cut(text, ".")
	for kind := AttrIP; kind < AttrClient; kind++ {
		if attributeNames[kind] != kindName {
			continue
		}
		switch {
		case !kind.Named() && hasDot:
			return Attribute{}, badCheck("attribute", quote(text), kindName+" alone")
		case kind.Named() && name == "":
			return Attribute{}, badCheck("attribute", quote(text), kindName+".<name>")
		case len(name) > MaxAttributeName:
			return Attribute{}, badCheck("attribute", quote(text), "a name of at most "+strconv.Itoa(MaxAttributeName)+" bytes")
		case kind == AttrHeader:
			name = strings.ToLower(name)
		case kind == AttrSegment && (!isNumber(name) || len(name) > 2 || name[0] == '0'):
			return Attribute{}, badCheck("attribute", quote(text), "segment.1 to segment.99")
		}
		return Attribute{Kind: kind, Name: name}, nil
	}
	if hasDot && kindName == attributeNames[AttrClient] {
		return Attribute{}, badCheck("attribute", quote(text),
			"a request attribute; client.<name> is a property of a registered client, for rule conditions only")
	}
	return Attribute{}, badCheck("attribute", quote(text), wantAttribute)
}
