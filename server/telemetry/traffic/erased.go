package traffic

import "strings"

// An ErasedClient names clients to erase: those that have all its attributes. It has a hash in place of each value, so
// that it does not keep the name of an erased client.
type ErasedClient map[string]string

// Erased returns the ErasedClient with the given attributes. Their values are in the form of Kept, or already hashed.
func (n *Namer) Erased(attributes map[string]string) ErasedClient {
	e := make(ErasedClient, len(attributes))
	for name, value := range attributes {
		e[name] = n.hashOfKept(value)
	}
	return e
}

// hashOfKept returns the hash of a value in the form of Kept. A hidden value has it already.
func (n *Namer) hashOfKept(value string) string {
	if IsHidden(value) {
		return value[strings.LastIndexByte(value, '#'):]
	}
	return n.HashOf(value)
}

// IsErased reports whether a client is one of the erased clients.
func (n *Namer) IsErased(c RawClient, list []ErasedClient) bool {
	attributes := c.Attributes()
	hashes := ErasedClient{}
	for _, e := range list {
		if n.includes(attributes, hashes, e) {
			return true
		}
	}
	return false
}

// includes reports whether attributes include all of e. It adds the hashes of their values to hashes, so that each is
// computed once.
func (n *Namer) includes(attributes map[string]string, hashes, e ErasedClient) bool {
	for name := range e {
		if _, ok := attributes[name]; !ok {
			return false
		}
	}
	for name, want := range e {
		if hashes[name] == "" {
			hashes[name] = n.hashOfKept(attributes[name])
		}
		if hashes[name] != want {
			return false
		}
	}
	return len(e) > 0
}

// sameKept reports whether two values in the form of Kept are equal. Hidden values are equal if their hashes are: the
// first characters of the secret may be missing.
func sameKept(a, b string) bool {
	if a == b {
		return true
	}
	return IsHidden(a) && IsHidden(b) && strings.HasSuffix(a, b[strings.LastIndexByte(b, '#'):])
}
