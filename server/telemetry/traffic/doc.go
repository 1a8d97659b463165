// Package traffic keeps statistics about decisions: how many requests each rule allowed and denied over time, and which
// clients sent or were denied most.
//
//	recorder := traffic.NewRecorder(traffic.RecorderOptions{Counters: metrics.Traffic, Sink: report})
//	e, err := engine.New(engine.Config{…, Observe: recorder.Observe})
//	go recorder.Run(ctx)
//
// A Recorder runs in every node. It samples the counters of the metrics each second, so that the series cost a decision
// nothing, and counts clients in tables of fixed size. It passes Reports to a sink: the rules service in the same
// process, or a remote one. A History merges the Reports of the nodes of a namespace and serves queries.
//
// # Error of client counts
//
// A table is a sketch with randomized admission, in buckets of 4 clients. The counts of a client are exact from the time
// it entered the table. A request of a client that is not in the table replaces the lightest client of its bucket with
// the probability 1/(its weight + 1), so that this weight is the expected number of requests that were missed before.
// Each entry has the error that holds with a probability of 99 %.
//
// From 50,000 requests in a second under one rule on, one request in 4 is counted for its client, from 500,000 one in
// 16. The counts of rules are always exact.
package traffic
