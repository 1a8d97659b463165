package rules

import "github.com/headgate/headgate"

// WithClients returns the same rules with a registry in place of the clients that were given to Compile. Who changes it
// changes who is known to these rules; they are not held against the rules (see Check).
func (s *Set) WithClients(r *Registry) *Set {
	made := *s
	made.fixed = r
	return &made
}

// Lookup returns the client that a value of an attribute names, in whatever form it is written. It is read only.
func (r *Registry) Lookup(a headgate.Attribute, value string) (*Client, bool) {
	c := r.find(a, usual(a.Kind, value))
	if c == nil {
		return nil, false
	}
	return c.client(), true
}
