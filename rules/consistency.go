package rules

import "github.com/headgate/headgate"

// A misfit is a mode and an algorithm that do not go together, and why.
type misfit struct {
	mode      Consistency
	algorithm headgate.Algorithm
	why       string
}

// misfits are all of them. What is not here goes together; exact and local go with everything.
var misfits = []misfit{
	{Lease, headgate.LeakyBucket, "a node that holds a lease does not know who waits on the others, and cannot space what passes"},
	{Lease, headgate.SlidingLog, "units are counted when they are leased, not when they are used, and the log would be wrong"},
	{Lease, headgate.SlidingBuckets, "a lease ends with its window, and would have to end with each of its buckets"},
	{Lease, headgate.Concurrency, "places are held and given back, not used up: there is nothing to lease ahead"},

	{Async, headgate.LeakyBucket, "a node does not know who waits on the others, and cannot space what passes"},
	{Async, headgate.SlidingLog, "nodes exchange how much was consumed, not when each unit was"},
	{Async, headgate.SlidingBuckets, "nodes exchange one total a key, and this needs one for each bucket"},
	{Async, headgate.Concurrency, "a place must be known to be free when it is taken, not some time later"},

	{Gossip, headgate.LeakyBucket, "a node does not know who waits on the others, and cannot space what passes"},
	{Gossip, headgate.SlidingLog, "nodes exchange how much was consumed, not when each unit was"},
	{Gossip, headgate.SlidingBuckets, "nodes exchange one total a key, and this needs one for each bucket"},
	{Gossip, headgate.Concurrency, "a place must be known to be free when it is taken, not some time later"},
}

// Compatible tells whether limits of an algorithm can be counted in a mode. If not, it says why.
func Compatible(mode Consistency, algorithm headgate.Algorithm) (ok bool, why string) {
	for _, m := range misfits {
		if m.mode == mode && m.algorithm == algorithm {
			return false, m.why
		}
	}
	return true, ""
}

// modesOf lists the modes that go with an algorithm.
func modesOf(algorithm headgate.Algorithm) string {
	var words []string
	for mode := Exact; mode <= Local; mode++ {
		if ok, _ := Compatible(mode, algorithm); ok {
			words = append(words, mode.String())
		}
	}
	return oneOf(words)
}
