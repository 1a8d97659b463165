package rules

import "github.com/headgate/headgate"

// An incompatibility is a mode and an algorithm that cannot be combined.
type incompatibility struct {
	mode      Consistency
	algorithm headgate.Algorithm
	reason    string
}

// incompatibilities lists the modes and algorithms that cannot be combined. The entries of Async also apply to Gossip.
// Exact and Local support every algorithm.
var incompatibilities = []incompatibility{
	{
		Lease, headgate.LeakyBucket,
		"a node with a lease does not know the queues of other nodes, so it cannot space requests",
	},
	{Lease, headgate.SlidingLog, "the log needs the time of each use, and leased units are counted when they are leased"},
	{Lease, headgate.SlidingBuckets, "a lease lasts for a window, but sliding-buckets needs one that lasts for a bucket"},
	{Lease, headgate.Concurrency, "slots are held and released, not consumed, so they cannot be leased in advance"},

	{Async, headgate.LeakyBucket, "a node does not know the queues of other nodes, so it cannot space requests"},
	{Async, headgate.SlidingLog, "nodes exchange how many units were consumed, not when"},
	{Async, headgate.SlidingBuckets, "nodes exchange one total per key, and sliding-buckets needs one per bucket"},
	{Async, headgate.Concurrency, "a node cannot know whether a slot is free without a call to a store"},
}

// Compatible reports whether a mode supports limits of an algorithm. If not, it returns the reason.
func Compatible(mode Consistency, algorithm headgate.Algorithm) (ok bool, reason string) {
	for _, i := range incompatibilities {
		if i.algorithm == algorithm && (i.mode == mode || i.mode == Async && mode == Gossip) {
			return false, i.reason
		}
	}
	if sharesConsumption(mode) && !isShareable(algorithm) { // a custom algorithm
		return false, "nodes cannot share what was consumed under " + algorithm.String()
	}
	return true, ""
}

// sharesConsumption reports whether nodes in this mode count without a store call for each request, and send each other
// how much was consumed.
func sharesConsumption(mode Consistency) bool {
	return mode == Lease || mode == Async || mode == Gossip
}

// isShareable reports whether nodes can add up the units that each of them counted under an algorithm.
func isShareable(a headgate.Algorithm) bool {
	switch a {
	case headgate.TokenBucket, headgate.GCRA, headgate.FixedWindow, headgate.SlidingWindow:
		return true
	default:
		return false
	}
}

// modesFor lists the modes that support an algorithm.
func modesFor(algorithm headgate.Algorithm) string {
	var words []string
	for mode := Exact; mode <= Local; mode++ {
		if ok, _ := Compatible(mode, algorithm); ok {
			words = append(words, mode.String())
		}
	}
	return oneOf(words)
}
