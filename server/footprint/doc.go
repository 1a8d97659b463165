// Package footprint holds the tests of how large the released program is, how soon it serves after its start, and how
// much memory it needs without load.
package footprint
