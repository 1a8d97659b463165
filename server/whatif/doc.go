// Package whatif says what a rule with other limits would have done to requests of the past: how many it would have
// denied, of which clients, and at which limit 99 % of the clients would not have noticed it.
//
//	result, err := whatif.Run(ctx, traffic, whatif.Proposal{Set: set, Rule: "search"}, nil)
//
// Traffic is recorded by nodes, or read from a log file with ReadLog. Each client's requests are replayed through the
// steps of package algorithm. If only a sample of the clients is known, figures are estimates with a 95 % confidence
// interval.
package whatif
