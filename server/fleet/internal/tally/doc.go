// Package tally has the type Tally: a node's report of the units that it consumed of one key.
package tally
