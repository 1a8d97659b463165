package rules

import (
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// Owner says whether the keys of a rule are a client's own or shared by several clients. A client's own limits are asked
// first, and those he shares only if his own allow: whoever is over his own limit drains nothing that others need.
type Owner uint8

// The owners.
const (
	// OwnerByKey is a client's own if the key has one of ip, user, api_key, bearer, jwt.<claim> and cookie.<name>, which
	// tell clients apart, and shared otherwise.
	OwnerByKey Owner = iota
	// OwnerClient is a client's own.
	OwnerClient
	// OwnerShared is shared by several clients, such as those of a tenant.
	OwnerShared
)

// Fallback says what happens when a request lacks an attribute of a rule's key. An empty value counts as lacking, so that
// strangers never share a counter by accident.
type Fallback uint8

// The fallbacks.
const (
	FallbackIP   Fallback = iota // count by the address instead; skip if there is none
	FallbackSkip                 // the rule does not apply
	FallbackDeny                 // deny
)

// Consistency says how hosts share what they count.
type Consistency uint8

// The modes. See the package comment for what they promise.
const (
	ByStore Consistency = iota // exact with Redis, local with memory
	Exact
	Lease
	Async
	Gossip
	Local
)

// Scope says how far a limit reaches.
type Scope uint8

// The scopes.
const (
	ScopeRegion Scope = iota // the nodes that share a store: each region has the limit to itself
	ScopeGlobal              // all regions have it together
)

// Action is what happens to a request that is over its limit.
type Action uint8

// The actions.
const (
	Reject Action = iota // answer that it is over
	Delay                // hold it until its turn
	Drop                 // close the connection without an answer
	Shadow               // let it pass, and only count that it was over
)

// OnLimit is an Action and, for Delay, how long a request may be held at most: "reject", "delay 2s", "drop", "shadow".
type OnLimit struct {
	Action  Action
	MaxWait time.Duration
}

// MaxDelay is the longest that OnLimit may hold a request.
const MaxDelay = 5 * time.Minute

// Unregistered says what becomes of clients that are not registered.
type Unregistered uint8

// What becomes of them.
const (
	UnregisteredDefault Unregistered = iota // the rule's limits
	UnregisteredDeny                        // deny
)

var (
	ownerWords        = []string{"by key", "client", "shared"}
	fallbackWords     = []string{"ip", "skip", "deny"}
	consistencyWords  = []string{"by store", "exact", "lease", "async", "gossip", "local"}
	scopeWords        = []string{"region", "global"}
	partitionWords    = []string{headgate.PartitionFull.String(), headgate.PartitionShare.String()}
	actionWords       = []string{"reject", "delay", "drop", "shadow"}
	unregisteredWords = []string{"default", "deny"}
	strictnessWords   = []string{"default", "exact", "ignore"}
)

func (o Owner) String() string        { return word(ownerWords, uint8(o)) }
func (f Fallback) String() string     { return word(fallbackWords, uint8(f)) }
func (c Consistency) String() string  { return word(consistencyWords, uint8(c)) }
func (s Scope) String() string        { return word(scopeWords, uint8(s)) }
func (a Action) String() string       { return word(actionWords, uint8(a)) }
func (u Unregistered) String() string { return word(unregisteredWords, uint8(u)) }
func (s Strictness) String() string   { return word(strictnessWords, uint8(s)) }

// String returns the words that ParseOnLimit reads.
func (o OnLimit) String() string {
	if o.Action == Delay {
		return o.Action.String() + " " + FormatDuration(o.MaxWait)
	}
	return o.Action.String()
}

// String returns the words that ParseDenials reads.
func (d Denials) String() string {
	return strconv.FormatInt(d.Count, 10) + " denials in " + FormatDuration(d.Within)
}

// ParseOwner reads "client" or "shared".
func ParseOwner(text string) (Owner, error) {
	n, err := parseWord("owner", ownerWords[1:], text)
	return Owner(n + 1), err
}

// ParseFallback reads "ip", "skip" or "deny".
func ParseFallback(text string) (Fallback, error) {
	n, err := parseWord("fallback", fallbackWords, text)
	return Fallback(n), err
}

// ParseConsistency reads "exact", "lease", "async", "gossip" or "local".
func ParseConsistency(text string) (Consistency, error) {
	n, err := parseWord("consistency", consistencyWords[1:], text)
	return Consistency(n + 1), err
}

// ParseScope reads "region" or "global".
func ParseScope(text string) (Scope, error) {
	n, err := parseWord("scope", scopeWords, text)
	return Scope(n), err
}

// ParsePartition reads "full" or "share".
func ParsePartition(text string) (headgate.Partition, error) {
	n, err := parseWord("partition", partitionWords, text)
	return headgate.Partition(n), err
}

// ParseUnregistered reads "default" or "deny".
func ParseUnregistered(text string) (Unregistered, error) {
	n, err := parseWord("unregistered", unregisteredWords, text)
	return Unregistered(n), err
}

// ParseStrictness reads "exact" or "ignore".
func ParseStrictness(text string) (Strictness, error) {
	n, err := parseWord("case", strictnessWords[1:], text)
	return Strictness(n + 1), err
}

// ParsePolicy reads "open", "closed" or "local".
func ParsePolicy(text string) (headgate.Policy, error) {
	n, err := parseWord("on_failure", []string{
		headgate.Open.String(), headgate.Closed.String(), headgate.Local.String(),
	}, text)
	return headgate.Policy(n), err
}

// ParseOnLimit reads "reject", "delay 2s", "drop" or "shadow".
func ParseOnLimit(text string) (OnLimit, error) {
	const want = `reject, drop, shadow, or delay and how long a request may be held, as in "delay 2s"`
	words := strings.Fields(text)
	if len(words) == 0 {
		return OnLimit{}, bad("on_limit", text, want)
	}
	n, err := parseWord("on_limit", actionWords, words[0])
	o := OnLimit{Action: Action(n)}
	takes := 1
	if o.Action == Delay {
		takes = 2
	}
	if err != nil || len(words) != takes {
		return OnLimit{}, bad("on_limit", text, want)
	}
	if o.Action == Delay {
		o.MaxWait, err = ParseDuration(words[1])
	}
	return o, err
}

// ParseDenials reads a number of denials in a time: "100 denials in 1m".
func ParseDenials(text string) (Denials, error) {
	words := strings.Fields(text)
	if len(words) != 4 || words[1] != "denials" && words[1] != "denial" || words[2] != "in" {
		return Denials{}, bad("after", text, `denials in a time, as in "100 denials in 1m"`)
	}
	n, err := strconv.ParseUint(words[0], 10, 63)
	if err != nil {
		return Denials{}, bad("after", text, `a whole number of denials, as in "100 denials in 1m"`)
	}
	within, err := ParseDuration(words[3])
	return Denials{Count: int64(n), Within: within}, err
}

// ParseDuration reads a time as limits write their period: "30s", "1h30m", "7d".
func ParseDuration(text string) (time.Duration, error) {
	const want = "a time such as 500ms, 30s, 1h30m, 7d, of at most 366 days"
	if strings.ContainsAny(text, " \t\r\n") || strings.Trim(text, "0123456789") == text {
		return 0, bad("time", text, want)
	}
	limit, err := headgate.ParseLimit("1/" + text)
	if err != nil {
		return 0, bad("time", text, want)
	}
	return limit.Period, nil
}

// FormatDuration writes a time of whole microseconds as ParseDuration reads it.
func FormatDuration(d time.Duration) string {
	text := strings.TrimPrefix(headgate.Per(1, d).String(), "1/")
	if text != "" && (text[0] < '0' || text[0] > '9') {
		text = "1" + text
	}
	return text
}

func word(words []string, n uint8) string {
	if int(n) < len(words) {
		return words[n]
	}
	return "unknown " + strconv.Itoa(int(n))
}

func parseWord(field string, words []string, text string) (int, error) {
	for i, w := range words {
		if w == text {
			return i, nil
		}
	}
	return 0, bad(field, text, oneOf(words))
}

// oneOf lists words: "a, b or c".
func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
