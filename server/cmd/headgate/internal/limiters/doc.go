// Package limiters opens the stores and fleet limiters that a configuration enables, and reports their state.
package limiters
