package control

import "time"

// An Override gives one client other limits for a while: it counts before what the client has of its own and before the
// overrides of rules, but not before a block.
type Override struct {
	ID string `json:"id"`
	// Client is whom it is for: attributes with one value each, such as user: acme. One of them is enough to be meant.
	Client map[string]string `json:"client"`
	// Rule is the rule that it is of. Empty is every rule that counts by one of these attributes.
	Rule string `json:"rule,omitempty"`
	// Limits are what the client has instead, or it is Unlimited, or blocked.
	Limits    []string `json:"limits,omitempty"`
	Unlimited bool     `json:"unlimited,omitempty"`
	Block     bool     `json:"block,omitempty"`
	// Expires is when it ends.
	Expires time.Time `json:"expires"`
	Note    string    `json:"note,omitempty"`
}
