// Package footprint has tests that limit the size of the released program, its start time, and its memory without load.
package footprint
