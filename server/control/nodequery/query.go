package nodequery

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/headgate/headgate/identity"
)

// A Query is a request to a node about one client.
type Query struct {
	Node       string            `json:"node"` // the receiver's ID
	Namespace  string            `json:"namespace"`
	Attributes map[string]string `json:"attributes"`
	// Sealed has the attributes that may be secret, as encrypted JSON. A node can decrypt them if it has the secret of
	// --key-secret-file.
	Sealed []byte `json:"sealed,omitempty"`
	// Rules are the IDs of the rules to query. Default all rules that count the client.
	Rules []string `json:"rules,omitempty"`
	// Named means that the caller has named the rule. The response then reports whether the rule is missing.
	Named bool `json:"named,omitempty"`
	// Reset resets the client's counters. Otherwise nothing changes.
	Reset bool `json:"reset,omitempty"`
	// Traffic is a query about the node's traffic instead of a client.
	Traffic json.RawMessage `json:"traffic,omitempty"`
	// Nonce is random, so that each query has a different signature. Nodes refuse a signature that they received before.
	Nonce string `json:"once"`
}

// seal encrypts the attributes. Without a secret it leaves them, and returns errNoSecret if one may be secret.
func (q *Query) seal(id *identity.Identifier) error {
	if len(q.Attributes) == 0 {
		return nil
	}
	text, err := json.Marshal(q.Attributes)
	if err != nil {
		return err
	}
	if sealed, ok := id.Seal(text); ok {
		q.Attributes, q.Sealed = nil, sealed
		return nil
	}
	for name := range q.Attributes {
		if MayBeSecret(name) {
			return errNoSecret
		}
	}
	return nil
}

// unseal restores the sealed attributes.
func (q *Query) unseal(id *identity.Identifier) error {
	if q.Sealed == nil {
		return nil
	}
	text, err := id.Unseal(q.Sealed)
	if err != nil {
		return err
	}
	if q.Attributes == nil {
		q.Attributes = make(map[string]string)
	}
	return json.Unmarshal(text, &q.Attributes)
}

// MayBeSecret reports whether the values of an attribute may be credentials. For descriptors and claims, it depends on
// whether the name contains one of secretWords.
func MayBeSecret(attribute string) bool {
	switch kind, name, _ := strings.Cut(attribute, "."); kind {
	case "api_key", "bearer", "cookie", "header", "query":
		return true
	case "descriptor", "jwt":
		name = strings.ToLower(name)
		return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
	default:
		return false
	}
}

// secretWords are parts of the names of descriptors and claims that may be credentials.
var secretWords = []string{
	"auth", "bearer", "cookie", "credential", "key", "passphrase", "password", "secret", "session", "token",
}
