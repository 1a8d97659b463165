package identity

import (
	"strconv"

	"github.com/headgate/headgate"
)

// MaxAttributes is the maximum number of attributes in Values.
const MaxAttributes = 64

// Values are attributes that do not come from a request itself, but from a program that knows them, such as Envoy or
// another caller of the decision service. They are not verified. They are converted to the same form as attributes of
// requests, so that equal values mean the same client.
type Values struct {
	// IP is the client's address, with or without a port.
	IP string
	// User and APIKey are the attributes user and api_key.
	User, APIKey string
	// Attributes has other attributes by name, such as header.x-plan. The value of bearer is the token, which is hashed.
	Attributes map[string]string
	// Descriptors are the entries of an Envoy descriptor. If several have the same key, the first is used.
	Descriptors []DescriptorEntry
}

// A DescriptorEntry is an entry of an Envoy descriptor.
type DescriptorEntry struct{ Key, Value string }

// An attributeValue is an attribute and its value.
type attributeValue struct {
	attr  headgate.Attribute
	value string
}

// ReadValues sets the attributes of dst to the given values. The error is a *headgate.InputError, for an unknown
// attribute, an attribute with two different values, or an invalid value. If ReadValues returns an error, dst has no
// attributes.
func (ident *Identifier) ReadValues(v Values, dst *Attributes) error {
	dst.Reset()
	dst.identifier, dst.fromValues = ident, true
	if err := dst.setValues(v); err != nil {
		dst.Reset()
		return err
	}
	return nil
}

func (a *Attributes) setValues(v Values) error {
	if n := len(v.Attributes) + len(v.Descriptors); n > MaxAttributes {
		return badValue("attributes", strconv.Itoa(n), "at most "+strconv.Itoa(MaxAttributes))
	}
	for _, known := range [...]struct {
		kind  headgate.AttributeKind
		value string
	}{{headgate.AttrIP, v.IP}, {headgate.AttrUser, v.User}, {headgate.AttrAPIKey, v.APIKey}} {
		if err := a.add(headgate.Attribute{Kind: known.kind}, known.value); err != nil {
			return err
		}
	}
	for name, value := range v.Attributes {
		attr, err := headgate.ParseAttribute(name)
		if err != nil {
			return err
		}
		if err := a.add(attr, value); err != nil {
			return err
		}
	}
	for _, d := range v.Descriptors {
		if d.Key == "" || len(d.Key) > headgate.MaxAttributeName {
			return badValue("descriptor", quote(d.Key), "a key of 1 to "+strconv.Itoa(headgate.MaxAttributeName)+" bytes")
		}
		attr := headgate.Attribute{Kind: headgate.AttrDescriptor, Name: d.Key}
		if a.find(attr) != nil {
			continue
		}
		if err := a.add(attr, d.Value); err != nil {
			return err
		}
	}
	return nil
}

// add adds an attribute, in the form that it would have if it were read from a request. It ignores empty values.
func (a *Attributes) add(attr headgate.Attribute, value string) error {
	if value == "" {
		return nil
	}
	if len(value) > maxInputBytes {
		return badValue(attr.String(), "of "+strconv.Itoa(len(value))+" bytes", "at most "+strconv.Itoa(maxInputBytes))
	}
	value, err := a.canonicalValue(attr, value)
	if err != nil || value == "" {
		return err
	}
	if earlier := a.find(attr); earlier != nil {
		if earlier.value != value {
			return badValue(attr.String(), "given twice", "one value")
		}
		return nil
	}
	a.pairs = append(a.pairs, attributeValue{attr: attr, value: value})
	return nil
}

// canonicalValue returns the value of an attribute in the form that it would have if it were read from a request, or ""
// if it then counted as missing. For the attribute ip, it also sets the client's address.
func (a *Attributes) canonicalValue(attr headgate.Attribute, value string) (string, error) {
	switch attr.Kind {
	case headgate.AttrIP:
		client, ok := readAddr(value)
		if !ok {
			return "", badValue("ip", quote(value), "an address such as 192.0.2.1 or 2001:db8::1")
		}
		a.client = client.addr
		return a.identifier.networkText(client), nil // such as the /64 network of an IPv6 address
	case headgate.AttrHost:
		host, err := CanonicalHost(value)
		if err != nil {
			return "", asInputError(err)
		}
		return host, nil
	case headgate.AttrPath:
		path, err := a.identifier.canonicalPath(value)
		if err != nil {
			return "", asInputError(err)
		}
		return path, nil
	case headgate.AttrUser:
		if value = trimAnySpace(value); hasControl(value) {
			return "", badValue("user", quote(value), "no control characters")
		}
	case headgate.AttrAPIKey:
		if value = trimBlanks(value); value != "" && !isAPIKey(value) {
			return "", badValue("api_key", "", wantCredential)
		}
	case headgate.AttrBearer:
		if value = trimBlanks(value); value == "" {
			return "", nil
		}
		if !isBearerToken(value) {
			return "", badValue("bearer", "", "one bearer token: "+wantCredential)
		}
		return a.identifier.BearerHash(value), nil
	case headgate.AttrHeader:
		header, err := a.identifier.canonicalHeader(attr.Name, value)
		if err != nil {
			return "", badValue(attr.String(), "", err.Want)
		}
		return header, nil
	}
	return a.identifier.hashIfLong(value), nil
}

// canonicalHeader is canonicalValue for a header.
func (ident *Identifier) canonicalHeader(lower, value string) (string, *RequestError) {
	switch value = trimAnySpace(value); {
	case lower == nameAuthorization.lower:
		auth := parseAuthorization(value)
		return ident.authorizationHash(&auth), auth.err
	case value != "" && isSecret(lower):
		return ident.hasher.sum(hashedHeader, value), nil
	default:
		return ident.hashIfLong(value), nil
	}
}

func (a *Attributes) find(attr headgate.Attribute) *attributeValue {
	for i := range a.pairs {
		if a.pairs[i].attr == attr {
			return &a.pairs[i]
		}
	}
	return nil
}

func (a *Attributes) getValue(attr headgate.Attribute) string {
	if p := a.find(attr); p != nil {
		return p.value
	}
	if attr.Kind == headgate.AttrSegment {
		if p := a.find(headgate.Attribute{Kind: headgate.AttrPath}); p != nil {
			return a.identifier.hashIfLong(segment(p.value, attr.Name))
		}
	}
	return a.identifier.configuredValue(attr.Kind)
}
