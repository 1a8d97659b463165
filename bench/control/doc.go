// Package control is the part "control" of the benchmark: the rules service, its nodes, and registered clients.
package control
