// Package faults is the part "faults" of the benchmark: tests of guard and redisstore that break Redis, and what they
// measure meanwhile.
package faults
