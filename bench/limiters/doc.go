// Package limiters makes the limiters that are measured in one process comparable: Headgate, its peers, and a floor,
// the least that an exact limiter can cost on the machine.
package limiters
