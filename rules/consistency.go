package rules

import "github.com/headgate/headgate"

// An incompatibility is a mode and an algorithm that cannot be combined.
type incompatibility struct {
	mode      Consistency
	algorithm headgate.Algorithm
	why       string
}

// incompatibilities lists the incompatible combinations and why. Gossip has those of async. Exact and local support
// every algorithm.
var incompatibilities = []incompatibility{
	{
		Lease, headgate.LeakyBucket,
		"a node with a lease does not know the queues of other nodes, so it cannot space requests",
	},
	{Lease, headgate.SlidingLog, "the log needs the time of each use, and leased units are counted when they are leased"},
	{Lease, headgate.SlidingBuckets, "a lease ends with its window, but here it would have to end with each bucket"},
	{Lease, headgate.Concurrency, "slots are held and released, not consumed, so they cannot be leased ahead"},

	{Async, headgate.LeakyBucket, "a node does not know the queues of other nodes, so it cannot space requests"},
	{Async, headgate.SlidingLog, "nodes exchange how many units were consumed, not when"},
	{Async, headgate.SlidingBuckets, "nodes exchange one total per key, and this needs one per bucket"},
	{Async, headgate.Concurrency, "a slot must be known to be free when it is taken"},
}

// Compatible reports whether limits of an algorithm can be counted in a mode, and if not, why.
func Compatible(mode Consistency, algorithm headgate.Algorithm) (ok bool, why string) {
	for _, m := range incompatibilities {
		if m.algorithm == algorithm && (m.mode == mode || m.mode == Async && mode == Gossip) {
			return false, m.why
		}
	}
	if sharesConsumption(mode) && !isShareable(algorithm) {
		return false, "nodes cannot share what was consumed under " + algorithm.String()
	}
	return true, ""
}

// sharesConsumption reports whether nodes share what was consumed in a mode without a store call for each request.
func sharesConsumption(mode Consistency) bool {
	return mode == Lease || mode == Async || mode == Gossip
}

// isShareable reports whether nodes can share what was consumed under an algorithm.
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
