// Package rules is the rule language: for which requests a rule is, whom it counts, and how much they may have.
//
// Rules are usually read from a file, by package rules/file:
//
//	rules:
//	  - id: search-per-user
//	    when: { host: api.example.com, path: /search/**, method: GET }
//	    key: [user]
//	    limits: [10/s burst 20, 1000/h sliding-window]
//
// [Compile] makes them ready as a [Set], which never changes: to change rules, compile others and use that set instead.
// [Set.Match] says which rules apply to a request and what each says of it. All that match apply, and all must allow.
//
//	for _, m := range set.Match(request, nil) {
//		switch {
//		case m.Effect.Denies(): // blocked
//		case m.Effect == rules.Limited: // take from m.Limits, under the keys of m.AppendKey
//		}
//	}
//
// # When
//
// A condition is attributes and their values, all of which must hold. A list means any of its values.
//
//	when:
//	  host: "*.example.com"          # every host below example.com, not example.com itself
//	  path: [/search/**, /find/*]    # ** any number of segments, none included; * any characters but a slash
//	  method: [GET, HEAD]
//	  header.x-plan: gold            # also cookie.<name>, query.<name>, jwt.<claim>, segment.<number>, descriptor.<key>
//	  header.x-trace: "*"            # there is one, whatever it says
//	  ip: [10.0.0.0/8, 2001:db8::/32]
//	  any: [{ user: alice }, { api_key: k1 }]
//	  not: { header.user-agent: "*bot*" }
//
// # Whom it counts
//
// Each combination of the values of key is counted on its own; without a key there is one bucket for all. A request that
// lacks one of the attributes, or has it empty, is counted by its address (fallback: ip, the default), or the rule does
// not apply (skip), or it is denied (deny).
//
// Limits of a client's own are asked before those that it shares with others, so that one who is over its own limit
// drains nothing that others need. A key is a client's own if it has ip, user, api_key, bearer, jwt.<claim> or
// cookie.<name>; all others are shared, such as those of a tenant. Where that guess is wrong, owner: client or
// owner: shared says so.
//
// # How much
//
// Limits are written as [headgate.ParseLimit] reads them, and can have names: { name: hourly, limit: 1000/h }. A request
// takes cost: a number, what a request header says (cost: { header: X-Cost, max: 100 }), or what a response header says
// afterwards (cost: { response_header: X-Tokens-Used, estimate: 100, max: 8000 }). A response that is cut short before it
// says so costs max.
//
// For one client the first of these holds:
//
//  1. a block: the rule's, that of an override that matches, or the client's
//  2. that it is not registered, if the rule says unregistered: deny
//  3. what a registered client has of its own, under this rule or under all that count by an attribute that names it
//  4. the first override that matches
//  5. the rule's limits
//
// Conditions can ask what is known of a registered client, as client.<name>: with overrides: [{ when: { client.plan: gold },
// limits: [500/s] }] all clients with that [Property] have another limit.
//
// A rule that is unlimited exempts: what it matches meets no limit of rules of the same or a lower priority. A block
// stands in any case. An override that is unlimited exempts from its own rule alone.
//
// # What happens then
//
//	on_limit: reject       # or delay 2s, drop, shadow
//	status: 429            # or 503
//	on_failure: open       # or closed, or local with safe: the limit to go by, when the store cannot be asked
//	penalty: { after: 100 denials in 1m, limits: [1/s], for: 10m }
//
// # Across hosts
//
// consistency says how hosts share what they count. Not every algorithm goes with every mode:
//
//	                 exact  lease  async  gossip  local
//	token-bucket       x      x      x      x       x
//	gcra               x      x      x      x       x
//	fixed-window       x      x      x      x       x
//	sliding-window     x      x      x      x       x
//	leaky-bucket       x                            x
//	sliding-log        x                            x
//	sliding-buckets    x                            x
//	concurrency        x                            x
//
// [Compatible] knows why. Exact is the default with Redis, and local with memory. With scope: global several regions have
// a limit together, whatever the mode inside a region; with partition: share nodes that do not hear of all others have but
// their part of it.
//
// # What is wrong
//
// Everything that is wrong is reported at once, with its place and what would be right, and nothing of it comes into
// force. Besides fields and patterns that mean nothing, these are refused: a cost that could never pass, a cost that
// clients write without a most, modes and algorithms that do not go together, delays that could hold nobody, penalties
// without a key, fields that have no meaning beside others. docs/rules.md has a table.
//
// # Speed
//
// A set is indexed by host and path, by networks and by the values of other attributes; each rule stands under the part
// of its condition that fewest others have. A match takes time with the number of rules that match and of different
// attributes that rules are found by, hardly with the number of rules. Rules without any such part are looked at one by
// one: those for all requests, those with nothing but not, and patterns that begin with a star.
package rules
