package rules

import (
	"time"

	"github.com/headgate/headgate"
)

// A Rule says which requests it applies to, by which key it counts, and how much it admits. Only ID and one of Limits,
// Unlimited and Block are required. The tag of a field is its name in a rules file.
type Rule struct {
	// ID names the rule in responses, headers, metrics and counters. It has letters, digits, '-', '_' and '.', at most
	// MaxName bytes, and is unique in a Set. A rule with a new id starts with new counters.
	ID string `field:"id"`
	// Namespace is the service that the rule belongs to. The rule does not apply to requests with another namespace
	// attribute. Default none: the rule applies to requests with any namespace.
	Namespace string `field:"namespace"`
	// Description is a text for readers of the rules. It has no effect.
	Description string `field:"description"`
	// Priority orders rules: the highest comes first. Rules with the same priority keep the order of the file. Default 0.
	Priority int `field:"priority"`
	// Disabled excludes the rule from matching. A disabled rule must be valid, too. In a file: enabled: false.
	Disabled bool `field:"enabled,not"`
	// When is the condition for a request. The zero Condition is true of all requests.
	When Condition `field:"when"`
	// Case says whether the rule distinguishes paths that differ only in case. It applies to When, to the conditions of
	// Overrides and to Key. Default StrictDefault: such paths are equal, unless the rule is Unlimited.
	Case Strictness `field:"case"`
	// TrailingSlash is like Case, for paths that differ only in a slash at the end.
	TrailingSlash Strictness `field:"trailing_slash"`
	// Key are the attributes that identify a client: each combination of their values has its own counters. Default
	// none: one counter for all. At most MaxKey.
	Key []headgate.Attribute `field:"key"`
	// Owner says whether a key belongs to one client or is shared by several clients. By default it depends on Key.
	Owner Owner `field:"owner"`
	// Fallback says what happens if the request lacks an attribute of Key. Default FallbackIP.
	Fallback Fallback `field:"fallback"`
	// Limits are the limits of the rule. All of them must allow a request. At most MaxLimits.
	Limits []Limit `field:"limits"`
	// Unlimited exempts matching requests from all limits of rules with the same or a lower priority, but not from
	// blocks.
	Unlimited bool `field:"unlimited"`
	// Block denies all matching requests.
	Block bool `field:"block"`
	// Cost is the number of units that a request takes. Default 1.
	Cost Cost `field:"cost"`
	// CountRejected charges denied requests as well.
	CountRejected bool `field:"count_rejected"`
	// Consistency says how nodes share the counters. Default depends on the store: exact with Redis, local with memory.
	Consistency Consistency `field:"consistency"`
	// Scope says which nodes share the limits. Default ScopeRegion: the nodes that share a store.
	Scope Scope `field:"scope"`
	// Partition says how much of a limit a node may use while it receives no updates from some peers. It applies under
	// Async and Gossip. Default is the whole limit.
	Partition headgate.Partition `field:"partition"`
	// Split is the number of parts that each key is divided into, for keys with too many requests for one server. Default
	// 0: keys are not split.
	Split int `field:"split"`
	// OnLimit is the action for a request over its limit. Default Reject.
	OnLimit OnLimit `field:"on_limit"`
	// Status is the HTTP status of a denial: 429 or 503. Default 429.
	Status int `field:"status"`
	// OnFailure is the policy while the store is unreachable. Default Open.
	OnFailure headgate.Policy `field:"on_failure"`
	// Safe is the limit while the store is unreachable, if OnFailure is Local. It replaces every limit of the rule.
	// Default is this node's share of each limit.
	Safe *headgate.Limit `field:"safe"`
	// Overrides replace the limits for some clients. The first override that matches applies. A matching override that
	// blocks applies even if another one comes first.
	Overrides []Override `field:"overrides"`
	// Unregistered says what happens to clients that are not registered. Default UnregisteredDefault: the rule's
	// limits.
	Unregistered Unregistered `field:"unregistered"`
	// Penalty adds limits for clients that are denied too often. Default none.
	Penalty *Penalty `field:"penalty"`
}

// A Limit is a limit of a rule with an optional name.
type Limit struct {
	// Name identifies the limit of a rule in headers and counters. It is a letter, then letters, digits, '-', '_' and
	// '.', at most MaxLimitName bytes. Give limits names before you reorder them, because counters are found by name.
	//
	// The default for a limit of a rule is its position in the list: "1", "2" and so on. The default for a limit of an
	// override or a client is the name of the rule's limit that it replaces, as LimitNameUnder finds it. If it replaces
	// none, the default consists of its period and algorithm.
	Name string `field:"name"`
	headgate.Limit
}

// An Override replaces the limits of a rule for some of its requests. Exactly one of Limits, Unlimited and Block must
// be set.
type Override struct {
	// When is the condition for the requests that the override applies to.
	When Condition `field:"when"`
	// Limits replace the limits of the rule.
	Limits []Limit `field:"limits"`
	// Unlimited admits these requests without counting them. Other rules still apply.
	Unlimited bool `field:"unlimited"`
	// Block denies all of these requests, even if an earlier override matches.
	Block bool `field:"block"`
}

// A Penalty adds limits for a client that was denied too often.
type Penalty struct {
	// After is the number of denials that triggers the penalty.
	After Denials `field:"after"`
	// Limits apply in addition to the client's other limits, with counters of their own.
	Limits []Limit `field:"limits"`
	// For is how long the penalty lasts.
	For time.Duration `field:"for"`
}

// Denials is a number of denials in a time: "100 denials in 1m".
type Denials struct {
	Count  int64
	Within time.Duration
}

// A Client is a registered client with limits of its own.
type Client struct {
	// ID identifies the client. It has letters, digits and any of -_.@:+, at most MaxName bytes, and is unique.
	ID string `field:"id"`
	// Description is a text for readers. It has no effect.
	Description string `field:"description"`
	// Attributes are the values that identify the client in requests; any of them is sufficient. A value belongs to one
	// client. Values are exact: neither patterns nor networks. Default is the user whose name is ID.
	Attributes []Test `field:"attributes"`
	// Properties describe the client, but do not identify it. Conditions test them as client.<name>, such as client.plan.
	// In a file they are listed among the attributes. At most MaxProperties.
	Properties []Property
	// Limits replace the limits of every rule whose key has an attribute that identifies this client. At most one of
	// Limits, Unlimited and Block may be set; if none is set, the rules' limits apply.
	Limits []Limit `field:"limits"`
	// Unlimited admits requests of the client under the same rules without counting them.
	Unlimited bool `field:"unlimited"`
	// Block denies all requests of the client under the same rules.
	Block bool `field:"block"`
	// Rules replace Limits, Unlimited and Block for single rules.
	Rules []ClientRule `field:"rules"`
}

// A ClientRule holds the limits of a client under one rule. Exactly one of Limits, Unlimited and Block must be set.
type ClientRule struct {
	// ID is the rule's id.
	ID string `field:"id"`
	// Limits replace the limits of the rule.
	Limits []Limit `field:"limits"`
	// Unlimited admits requests of the client without counting them.
	Unlimited bool `field:"unlimited"`
	// Block denies all requests of the client under this rule.
	Block bool `field:"block"`
}

// Bounds of a Set.
const (
	MaxRules     = 100_000
	MaxClients   = 1 << 20 // clients that Compile accepts; a registry may have more
	MaxName      = 128     // bytes of an id and a namespace
	MaxLimitName = 64      // bytes
	MaxText      = 4096    // bytes of a description and of a value in a condition
	MaxKey       = 8       // attributes of a key
	MaxLimits    = 8       // limits of a rule, an override, a client, a penalty
	MaxOverrides = 10_000  // of a rule
	MaxPriority  = 1_000_000

	MaxProperties    = 16  // of a client
	MaxPropertyName  = 64  // bytes
	MaxPropertyValue = 256 // bytes
)
