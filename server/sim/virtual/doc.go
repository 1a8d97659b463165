// Package virtual runs programs in virtual time. It has an event loop, and hosts with clocks. The goroutines of all
// hosts run one at a time, in an order that depends only on the events.
package virtual
