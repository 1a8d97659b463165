package jwt

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/headgate/headgate/identity"
)

// claims are the claims of a valid token.
type claims struct {
	payload  map[string]any
	verified bool
}

var _ identity.Claims = (*claims)(nil)

// Verified reports whether the signature was verified.
func (c *claims) Verified() bool { return c.verified }

// Claim returns a claim as text.
func (c *claims) Claim(name string) (string, bool) { return find(c.payload, name) }

// find returns the claim with a name. Dots in the name can separate the names of nested objects.
func find(object map[string]any, name string) (string, bool) {
	if value, ok := object[name]; ok {
		return text(value)
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		if inner, ok := object[name[:i]].(map[string]any); ok {
			if value, ok := find(inner, name[i+1:]); ok {
				return value, true
			}
		}
	}
	return "", false
}

// text returns a claim's value as text. It returns false for lists, objects, null and empty strings. A list of one
// element is read as that element.
func text(value any) (string, bool) {
	if list, ok := value.([]any); ok && len(list) == 1 {
		value = list[0]
	}
	switch v := value.(type) {
	case string:
		return v, strings.TrimSpace(v) != ""
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	default:
		return "", false
	}
}
