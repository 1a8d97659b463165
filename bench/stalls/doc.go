// Package stalls explains what a slow request waited for: the machine stood still, the kernel ran something else, or
// the measured code was slow. It is for tests and benchmarks of worst-case latency on shared machines.
package stalls
