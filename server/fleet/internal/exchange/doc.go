// Package exchange has the parts shared by limiters that use a fleet.Exchange: their settings, their notes and their
// figures.
package exchange
