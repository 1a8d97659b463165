// Package token manages the tokens that callers of the rules service send.
//
// A token has one role and is valid for some or all namespaces. The database stores only an HMAC-SHA256 of its secret,
// which is random and long. Addresses with too many failed logins are denied for some time.
package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Role is the set of calls that may be made with a token.
type Role string

// The roles. An editor may make all calls of a viewer, and an admin all calls of an editor. Node is the role of nodes.
const (
	Viewer Role = "viewer"
	Editor Role = "editor"
	Admin  Role = "admin"
	Node   Role = "node"
)

// Roles are all roles.
var Roles = []Role{Viewer, Editor, Admin, Node}

// JoinRoles returns the names of roles, separated by commas.
func JoinRoles(roles []Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

// AllNamespaces stands for all namespaces in the namespaces of a token.
const AllNamespaces = "*"

// A Principal is an authenticated caller, described by its token.
type Principal struct {
	ID         string    `json:"id"` // of the token
	Role       Role      `json:"role"`
	Namespaces []string  `json:"namespaces"`
	Expires    time.Time `json:"expires,omitzero"`
}

// Covers reports whether the token is valid for a namespace.
func (p *Principal) Covers(namespace string) bool {
	return p.CoversAll() || slices.Contains(p.Namespaces, namespace)
}

// CoversAll reports whether the token is valid for all namespaces.
func (p *Principal) CoversAll() bool { return slices.Contains(p.Namespaces, AllNamespaces) }

// CoversEach reports whether the token is valid for each of the given namespaces.
func (p *Principal) CoversEach(namespaces []string) bool {
	return !slices.ContainsFunc(namespaces, func(n string) bool { return !p.Covers(n) })
}

// A Token is a stored token, without its secret.
type Token struct {
	Principal
	Description string    `json:"description,omitempty"`
	Expired     bool      `json:"expired,omitempty"`
	Created     time.Time `json:"created"`
	By          string    `json:"by"` // ID of the token that created this one
}

// isSuperuser reports whether the token is valid for every call and every namespace.
func (t *Token) isSuperuser() bool {
	return t.Role == Admin && t.CoversAll() && !t.Expired
}

// A record is a token in the database.
type record struct {
	Principal
	Description string `json:"description,omitempty"`
	Hash        string `json:"hash,omitempty"`
}

func parseRecord(o *control.Object) (r record, err error) {
	if err := json.Unmarshal(o.Body, &r); err != nil {
		return r, fmt.Errorf("read token %s: %w", o.ID, err)
	}
	return r, nil
}

func (r *record) expired(now time.Time) bool { return !r.Expires.IsZero() && !now.Before(r.Expires) }

// Namespaces returns the namespaces of a token from its body in the database.
func Namespaces(body []byte) ([]string, error) {
	r, err := parseRecord(&control.Object{Body: body})
	return r.Namespaces, err
}

// A token is "hg_" + its ID + "_" + its secret, which has no '_'.
const prefix = "hg_"

func join(id, secret string) string { return prefix + id + "_" + secret }

// split returns the parts of a token.
func split(token string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(token, prefix)
	i := strings.LastIndexByte(rest, '_')
	if !ok || i < 1 || !control.IsName(rest[:i]) || i == len(rest)-1 {
		return "", "", false
	}
	return rest[:i], rest[i+1:], true
}

// hash returns the hash under which a secret is stored. Its key has the ID, so that equal secrets have different
// hashes. It need not be a slow hash, because nobody can guess 256 random bits.
func hash(id, secret string) string {
	mac := hmac.New(sha256.New, []byte("headgate token "+id))
	mac.Write([]byte(secret))
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil))
}
