// Package nodequery asks all nodes of a namespace for the counters of one client, and for their traffic.
//
// The rules service knows rules, not counters: those are in the nodes, or in stores that nodes share. A Poller sends a
// Query about a client to every node. A Responder is the HTTP handler of a node that responds.
package nodequery
