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
// A Table is a filtered space-saving sketch, in buckets of 8 clients. The counts of a client are exact from the time it
// entered the table. Each entry has the maximum weight that may have been missed before, its error.
package traffic
