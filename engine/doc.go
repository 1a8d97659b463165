// Package engine decides requests by rules: it matches, takes from all limits at once, and says what to do.
package engine
