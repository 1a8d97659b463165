// Package traffic keeps statistics about decisions: how many requests each rule allowed and denied over time, and which
// clients sent or were denied most.
//
//	recorder := traffic.NewRecorder(traffic.RecorderOptions{Counters: metrics.Traffic, Sink: report})
//	e, err := engine.New(engine.Config{…, Observe: recorder.Observe})
//	go recorder.Run(ctx)
//
// A Recorder runs in every node. It reads the counters of the metrics each second, which adds no work to decisions, and
// counts clients in tables of fixed size. It passes Reports to a sink, the rules service in the same process or a
// remote one. A History merges the Reports of the nodes of a namespace and serves queries.
//
// # Error of client counts
//
// A table is a sketch with randomized admission. It has buckets of 4 clients. A client that is not in the table
// replaces the lightest client of its bucket, of weight w, with a probability of 1/(w+1) for each of its requests.
// Therefore, w is the expected number of its requests before it entered the table. Later requests are counted exactly.
// The error of a count is the bound that holds with a probability of 99 %.
//
// If a rule gets 50,000 requests per second or more, only one request in 4 is counted for its client; from 500,000
// requests, one in 16. The counts of rules are always exact.
package traffic
