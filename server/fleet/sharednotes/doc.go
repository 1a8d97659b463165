// Package sharednotes stores in memory what nodes share through Redis: the notes that they exchange, and the list of
// nodes. It runs the same steps as the scripts of package fleetredis.
package sharednotes
