package rules

import (
	"time"

	"github.com/headgate/headgate"
)

// A Rule says for which requests it is, whom it counts, and how much they may have. Only ID and one of Limits, Unlimited
// and Block must be given. The tag of a field is its name in a rules file.
type Rule struct {
	// ID names the rule in answers, headers, metrics and counters. Letters, digits, '-', '_' and '.', at most MaxName.
	// Unique in a Set. A rule that gets another id starts with fresh counters.
	ID string `field:"id"`
	// Namespace is the service that the rule belongs to. Such a rule is not for requests whose namespace attribute says
	// another one. Default none: it is for all.
	Namespace string `field:"namespace"`
	// Description is for people.
	Description string `field:"description"`
	// Priority puts rules in order, higher first; among equals the order is that of the file. Default 0.
	Priority int `field:"priority"`
	// Disabled takes the rule out of force. It must be right all the same. In a file: enabled: false.
	Disabled bool `field:"enabled,not"`
	// When is what must be true of a request. The zero Condition is true of all.
	When Condition `field:"when"`
	// Case says whether paths that differ in upper and lower case are different, in When, in the conditions of Overrides and
	// in Key. Default StrictDefault: they are.
	Case Strictness `field:"case"`
	// TrailingSlash says whether a path with a slash at its end is another than the one without, likewise.
	TrailingSlash Strictness `field:"trailing_slash"`
	// Key are the attributes that name a client: each combination of their values is counted on its own. Default none: one
	// bucket for all. At most MaxKey.
	Key []headgate.Attribute `field:"key"`
	// Owner says whether a key is a client's own or shared by several. Default is to tell by Key.
	Owner Owner `field:"owner"`
	// Fallback says what happens when the request lacks an attribute of Key. Default FallbackIP.
	Fallback Fallback `field:"fallback"`
	// Limits are how much may pass; all must allow. At most MaxLimits.
	Limits []Limit `field:"limits"`
	// Unlimited exempts: what the rule matches meets no limit of the rules of the same or a lower priority. Blocks stay.
	Unlimited bool `field:"unlimited"`
	// Block denies everything that the rule matches.
	Block bool `field:"block"`
	// Cost is what a request takes. Default 1.
	Cost Cost `field:"cost"`
	// CountRejected takes the cost of requests that are denied as well.
	CountRejected bool `field:"count_rejected"`
	// Consistency is how hosts share the counters. Default what suits the store: exact with Redis, local with memory.
	Consistency Consistency `field:"consistency"`
	// Scope is how far the limits reach. Default ScopeRegion: the nodes that share a store.
	Scope Scope `field:"scope"`
	// Partition is how much of a limit nodes keep that do not hear of all others, under Async and Gossip. Default all of it.
	Partition headgate.Partition `field:"partition"`
	// Split is in how many parts a key is counted that is too hot for one server. Default 0: it is not split.
	Split int `field:"split"`
	// OnLimit is what happens to a request that is over its limit. Default Reject.
	OnLimit OnLimit `field:"on_limit"`
	// Status is the HTTP status of a denial: 429 or 503. Default 429.
	Status int `field:"status"`
	// OnFailure says who decides when the store cannot be asked. Default Open.
	OnFailure headgate.Policy `field:"on_failure"`
	// Safe is the limit that OnFailure Local goes by. Default this node's share of each limit.
	Safe *headgate.Limit `field:"safe"`
	// Overrides are other limits for some. The first that matches counts, and a block wherever it stands.
	Overrides []Override `field:"overrides"`
	// Unregistered says what becomes of clients that are not registered. Default UnregisteredDefault: the rule's limits.
	Unregistered Unregistered `field:"unregistered"`
	// Penalty adds limits for clients that are denied too often. Default none.
	Penalty *Penalty `field:"penalty"`
}

// A Limit is a limit of a rule, which may have a name.
type Limit struct {
	// Name tells the limits of a rule apart in headers and counters. A letter, then letters, digits, '-', '_' and '.'; at
	// most MaxLimitName. Default is its place in the list, from "1" on; in overrides and clients it is the name of the
	// rule's limit of the same algorithm and period, else its period. Name limits that you mean to reorder: what was
	// consumed is remembered by name.
	Name string `field:"name"`
	headgate.Limit
}

// An Override gives other limits to some of the clients of a rule. Exactly one of Limits, Unlimited and Block is given.
type Override struct {
	// When is for whom.
	When Condition `field:"when"`
	// Limits replace the rule's.
	Limits []Limit `field:"limits"`
	// Unlimited lets them pass uncounted. Other rules still apply.
	Unlimited bool `field:"unlimited"`
	// Block denies them everything, whatever the overrides before this one say.
	Block bool `field:"block"`
}

// A Penalty adds limits for a client that was denied too often.
type Penalty struct {
	// After is how many denials in which time.
	After Denials `field:"after"`
	// Limits must allow a request too, besides the limits that the client has anyway. They have counters of their own.
	Limits []Limit `field:"limits"`
	// For is how long they apply.
	For time.Duration `field:"for"`
}

// Denials is a number of denials in a time: "100 denials in 1m".
type Denials struct {
	Count  int64
	Within time.Duration
}

// A Client is one that is known, with limits of its own.
type Client struct {
	// ID names the client. Letters, digits and any of -_.@:+, at most MaxName. Unique.
	ID string `field:"id"`
	// Description is for people.
	Description string `field:"description"`
	// Attributes are the values by which requests name this client; any of them will do. A value belongs to one client.
	// They are exact: no globs and no networks. Default the user of the client's id.
	Attributes []Test `field:"attributes"`
	// Properties describe the client, and name nobody: its plan, say. Conditions ask for them as client.<name>. In a file
	// they stand among the attributes. At most MaxProperties.
	Properties []Property
	// Limits replace those of every rule whose key has an attribute that names this client. At most one of Limits,
	// Unlimited and Block is given; none leaves the rules' limits.
	Limits []Limit `field:"limits"`
	// Unlimited lets the client pass such rules uncounted.
	Unlimited bool `field:"unlimited"`
	// Block denies the client everything under such rules.
	Block bool `field:"block"`
	// Rules are what holds under single rules instead of the above.
	Rules []ClientRule `field:"rules"`
}

// A ClientRule is what one rule grants to a client. Exactly one of Limits, Unlimited and Block is given.
type ClientRule struct {
	// ID is the rule's.
	ID string `field:"id"`
	// Limits replace the rule's.
	Limits []Limit `field:"limits"`
	// Unlimited lets the client pass uncounted.
	Unlimited bool `field:"unlimited"`
	// Block denies the client everything under this rule.
	Block bool `field:"block"`
}

// Bounds of what a Set takes.
const (
	MaxRules     = 100_000
	MaxClients   = 1 << 20 // given to Compile; a Registry takes more
	MaxName      = 128     // bytes of an id and a namespace
	MaxLimitName = 64      // bytes
	MaxText      = 4096    // bytes of a description and of a value to compare with
	MaxKey       = 8       // attributes of a key
	MaxLimits    = 8       // limits of a rule, an override, a client, a penalty
	MaxOverrides = 10_000  // of a rule
	MaxPriority  = 1_000_000

	MaxProperties    = 16  // of a client
	MaxPropertyName  = 64  // bytes
	MaxPropertyValue = 256 // bytes
)
