// Command bench compares Headgate with its peers and with a floor, which is the least work that a correct
// implementation needs on this machine. It measures limiters in memory and in Redis, and proxies, and writes the
// results to RESULTS.md.
//
// Every contender runs in its own process, so that the garbage of one does not slow down another. All processes stay
// alive while they take turns. The command reads /proc, so it needs Linux.
//
//	go run .                    everything, into RESULTS.md
//	go run . -only 'uniform|gc' some scenarios, to standard output
//	go run . -part gateway      one part, into RESULTS.md
//	go run . -quick             everything at toy sizes, to see that it runs
package main
