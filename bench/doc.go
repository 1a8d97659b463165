// Command bench runs Headgate's in-memory limiter beside other Go limiters and beside a floor, the least that such a
// limiter can cost on the machine, and writes what it measured to RESULTS.md.
//
// Every contender lives in a process of its own, so that nobody pays for another's garbage collection; all of them stay
// alive while they take turns. It reads /proc and therefore runs on Linux.
//
//	go run .                    everything, into RESULTS.md
//	go run . -only 'uniform|gc' some scenarios, to standard output
//	go run . -quick             everything at toy sizes, to see that it runs
package main
