// Package core is the part "core" of the benchmark: the speed, memory, garbage collection and growth of limiters in one
// process.
package core
