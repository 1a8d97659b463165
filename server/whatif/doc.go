// Package whatif applies a rule with other limits to past requests. It reports how many requests the rule would have
// denied, for which clients, and the limit at which 99 % of the clients would have had no request denied.
//
//	result, err := whatif.Run(ctx, traffic, whatif.Proposal{Set: set, Rule: "search"}, nil)
//
// Nodes record traffic, or ReadLog reads it from a log file. Run replays each client's requests with the algorithm of
// the limit. If the traffic has only a sample of the clients, figures are estimates with a 95 % confidence interval.
package whatif
