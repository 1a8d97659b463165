// Package faults is the part "faults" of the benchmark: tests of guard and redisstore that break Redis, and the times
// that they measure.
package faults
