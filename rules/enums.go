package rules

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// Owner says whether a key of a rule belongs to one client or is shared by several clients. A client's own limits are
// checked first. Shared limits are checked only if the client's own limits allow the request, so that a client over its
// own limit consumes no units that others need.
type Owner uint8

// The owners.
const (
	// OwnerByKey derives the owner from the key. The key belongs to one client if it has an attribute that identifies
	// clients: ip, user, api_key, bearer, jwt.<claim> or cookie.<name>. Otherwise it is shared.
	OwnerByKey Owner = iota
	// OwnerClient means that a key belongs to one client.
	OwnerClient
	// OwnerShared means that several clients share a key, for example all users of one tenant.
	OwnerShared
)

// Fallback says what happens when a request lacks an attribute of a rule's key. An empty value counts as missing, so
// that unrelated clients never share a counter by accident.
type Fallback uint8

// The fallbacks.
const (
	FallbackIP   Fallback = iota // count the request by the client's address; without an address, as FallbackSkip
	FallbackSkip                 // do not apply the rule to the request
	FallbackDeny                 // deny the request
)

// Consistency says how nodes share their counters.
type Consistency uint8

// The modes. docs/fleet.md states their guarantees.
const (
	ByStore Consistency = iota // Exact if the counters are in Redis, Local if they are in memory
	Exact                      // every request is counted in Redis
	Lease                      // nodes take units from Redis in advance
	Async                      // nodes count in memory and send each other updates through Redis
	Gossip                     // nodes count in memory and send each other updates directly
	Local                      // each node counts for itself
)

// Scope says which nodes share a limit.
type Scope uint8

// The scopes.
const (
	ScopeRegion Scope = iota // the nodes that share a store: each region has the whole limit
	ScopeGlobal              // all regions share the limit
)

// Action is what happens to a request over its limit.
type Action uint8

// The actions.
const (
	Reject Action = iota // respond that the request is over the limit
	Delay                // delay the request until the limit admits it
	Drop                 // close the connection without a response
	Shadow               // admit the request, and only count that it was over the limit
)

// OnLimit is an Action and, for Delay, the longest delay: "reject", "delay 2s", "drop", "shadow".
type OnLimit struct {
	Action  Action
	MaxWait time.Duration
}

// MaxDelay is the longest delay of OnLimit.
const MaxDelay = 5 * time.Minute

// Unregistered says what happens to clients that are not registered.
type Unregistered uint8

// The values of Unregistered.
const (
	UnregisteredDefault Unregistered = iota // they have the rule's limits
	UnregisteredDeny                        // their requests are denied
)

// Strictness says whether a rule distinguishes paths that many services treat as equal, such as /a and /A or /a and
// /a/.
type Strictness uint8

// The values of Strictness.
const (
	// StrictDefault means StrictIgnore for rules with limits and StrictExact for rules that are Unlimited. So a limit
	// covers every notation of a path, and an exemption covers only the paths that it names.
	StrictDefault Strictness = iota
	StrictExact              // the paths are different
	StrictIgnore             // the paths are equal
)

var (
	ownerNames        = []string{"by key", "client", "shared"}
	fallbackNames     = []string{"ip", "skip", "deny"}
	consistencyNames  = []string{"by store", "exact", "lease", "async", "gossip", "local"}
	scopeNames        = []string{"region", "global"}
	partitionNames    = []string{headgate.PartitionFull.String(), headgate.PartitionShare.String()}
	actionNames       = []string{"reject", "delay", "drop", "shadow"}
	unregisteredNames = []string{"default", "deny"}
	strictnessNames   = []string{"default", "exact", "ignore"}
	policyNames       = []string{headgate.Open.String(), headgate.Closed.String(), headgate.Local.String()}
)

func (o Owner) String() string        { return enumName(ownerNames, uint8(o)) }
func (f Fallback) String() string     { return enumName(fallbackNames, uint8(f)) }
func (c Consistency) String() string  { return enumName(consistencyNames, uint8(c)) }
func (s Scope) String() string        { return enumName(scopeNames, uint8(s)) }
func (a Action) String() string       { return enumName(actionNames, uint8(a)) }
func (u Unregistered) String() string { return enumName(unregisteredNames, uint8(u)) }
func (s Strictness) String() string   { return enumName(strictnessNames, uint8(s)) }

// String returns the text that ParseOnLimit parses.
func (o OnLimit) String() string {
	if o.Action == Delay {
		return o.Action.String() + " " + FormatDuration(o.MaxWait)
	}
	return o.Action.String()
}

// String returns the text that ParseDenials parses.
func (d Denials) String() string {
	return strconv.FormatInt(d.Count, 10) + " denials in " + FormatDuration(d.Within)
}

// ParseOwner parses "client" or "shared".
func ParseOwner(text string) (Owner, error) {
	return parseEnum[Owner]("owner", ownerNames, OwnerClient, text)
}

// ParseFallback parses "ip", "skip" or "deny".
func ParseFallback(text string) (Fallback, error) {
	return parseEnum[Fallback]("fallback", fallbackNames, FallbackIP, text)
}

// ParseConsistency parses "exact", "lease", "async", "gossip" or "local".
func ParseConsistency(text string) (Consistency, error) {
	return parseEnum[Consistency]("consistency", consistencyNames, Exact, text)
}

// ParseScope parses "region" or "global".
func ParseScope(text string) (Scope, error) {
	return parseEnum[Scope]("scope", scopeNames, ScopeRegion, text)
}

// ParsePartition parses "full" or "share".
func ParsePartition(text string) (headgate.Partition, error) {
	return parseEnum[headgate.Partition]("partition", partitionNames, 0, text)
}

// ParseUnregistered parses "default" or "deny".
func ParseUnregistered(text string) (Unregistered, error) {
	return parseEnum[Unregistered]("unregistered", unregisteredNames, UnregisteredDefault, text)
}

// ParseStrictness parses "exact" or "ignore".
func ParseStrictness(text string) (Strictness, error) {
	return parseEnum[Strictness]("case", strictnessNames, StrictExact, text)
}

// ParsePolicy parses "open", "closed" or "local".
func ParsePolicy(text string) (headgate.Policy, error) {
	return parseEnum[headgate.Policy]("on_failure", policyNames, 0, text)
}

// ParseOnLimit parses "reject", "delay 2s", "drop" or "shadow".
func ParseOnLimit(text string) (OnLimit, error) {
	const want = `reject, drop, shadow, or delay and the longest delay, as in "delay 2s"`
	words := strings.Fields(text)
	if len(words) == 0 {
		return OnLimit{}, newParseError("on_limit", text, want)
	}
	action, err := parseEnum("on_limit", actionNames, Reject, words[0])
	o := OnLimit{Action: action}
	wantWords := 1
	if o.Action == Delay {
		wantWords = 2
	}
	if err != nil || len(words) != wantWords {
		return OnLimit{}, newParseError("on_limit", text, want)
	}
	if o.Action == Delay {
		o.MaxWait, err = ParseDuration(words[1])
	}
	return o, err
}

// ParseDenials parses a number of denials in a time: "100 denials in 1m".
func ParseDenials(text string) (Denials, error) {
	words := strings.Fields(text)
	if len(words) != 4 || words[1] != "denials" && words[1] != "denial" || words[2] != "in" {
		return Denials{}, newParseError("after", text, `denials in a time, as in "100 denials in 1m"`)
	}
	n, err := strconv.ParseUint(words[0], 10, 63)
	if err != nil {
		return Denials{}, newParseError("after", text, `a whole number of denials, as in "100 denials in 1m"`)
	}
	within, err := ParseDuration(words[3])
	return Denials{Count: int64(n), Within: within}, err
}

// ParseDuration parses a time as written in limits: "30s", "1h30m", "7d".
func ParseDuration(text string) (time.Duration, error) {
	const want = "a time such as 500ms, 30s, 1h30m, 7d, of at most 366 days"
	if strings.ContainsAny(text, " \t\r\n") || strings.Trim(text, "0123456789") == text {
		return 0, newParseError("time", text, want)
	}
	limit, err := headgate.ParseLimit("1/" + text)
	if err != nil {
		return 0, newParseError("time", text, want)
	}
	return limit.Period, nil
}

// FormatDuration formats a time of whole microseconds as ParseDuration parses it.
func FormatDuration(d time.Duration) string {
	text := strings.TrimPrefix(headgate.Per(1, d).String(), "1/")
	if text != "" && (text[0] < '0' || text[0] > '9') {
		text = "1" + text
	}
	return text
}

func enumName(words []string, n uint8) string {
	if int(n) < len(words) {
		return words[n]
	}
	return "unknown " + strconv.Itoa(int(n))
}

// parseEnum parses one of the names from the index first on. The names before it are not valid in a file.
func parseEnum[T ~uint8](field string, names []string, first T, text string) (T, error) {
	if i := slices.Index(names[first:], text); i >= 0 {
		return first + T(i), nil
	}
	return 0, newParseError(field, text, oneOf(names[first:]))
}

// oneOf returns a list of words for a message: "a, b or c".
func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
