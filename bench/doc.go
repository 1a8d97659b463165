// Command bench runs Headgate beside its peers and beside a floor, the least that such a thing can cost on the machine,
// and writes what it measured to RESULTS.md: limiters in memory and in Redis, and proxies.
//
// Every contender lives in a process of its own, so that nobody pays for another's garbage collection; all of them stay
// alive while they take turns. It reads /proc and therefore runs on Linux.
//
//	go run .                    everything, into RESULTS.md
//	go run . -only 'uniform|gc' some scenarios, to standard output
//	go run . -part gateway      one part, into RESULTS.md
//	go run . -quick             everything at toy sizes, to see that it runs
package main
