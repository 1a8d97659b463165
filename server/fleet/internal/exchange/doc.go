// Package exchange has the parts that limiters share which use a fleet.Exchange: their settings, the notes they leave,
// and their figures.
package exchange
