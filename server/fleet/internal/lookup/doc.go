// Package lookup lets decisions wait until an exchange has read how much peers consumed of a key.
package lookup
