// Package virtual runs programs in virtual time: an event loop, and hosts with clocks whose goroutines run one at a
// time in an order that depends on nothing but the events.
package virtual
