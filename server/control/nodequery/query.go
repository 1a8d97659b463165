package nodequery

import (
	"encoding/json"
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

// seal encrypts the attributes that may be secret.
func (q *Query) seal(id *identity.Identifier) error {
	plain, secret := make(map[string]string), make(map[string]string)
	for name, value := range q.Attributes {
		if MayBeSecret(name) {
			secret[name] = value
		} else {
			plain[name] = value
		}
	}
	if len(secret) == 0 {
		return nil
	}
	text, err := json.Marshal(secret)
	if err != nil {
		return err
	}
	sealed, ok := id.Seal(text)
	if !ok {
		return errNoSecret
	}
	q.Attributes, q.Sealed = plain, sealed
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

// MayBeSecret reports whether the values of an attribute may be credentials.
func MayBeSecret(attribute string) bool {
	switch kind, _, _ := strings.Cut(attribute, "."); kind {
	case "api_key", "bearer", "cookie", "header", "query":
		return true
	default:
		return false
	}
}
