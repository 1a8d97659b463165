// Package nodequery lets the rules service query the nodes of a namespace. The counters of clients and traffic
// statistics are not in the rules service, but in the memory of nodes or in stores that nodes share.
//
// A [Poller] of the rules service sends a signed [Query] to each node. A [Responder] is the HTTP handler of a node that
// responds to it.
package nodequery
