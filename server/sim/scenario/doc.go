// Package scenario reads the files that describe a simulation: the limit, the nodes, the traffic and the faults.
package scenario
