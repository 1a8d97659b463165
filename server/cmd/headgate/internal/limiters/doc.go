// Package limiters opens the stores and limiters that a configuration enables, and reports their state.
package limiters
