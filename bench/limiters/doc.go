// Package limiters gives the limiters that are measured in one process a common interface: Headgate, its peers, and a
// floor, which is the least work that an exact limiter needs on this machine.
package limiters
