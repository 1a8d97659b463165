// Package stalls tells what a request waited for that took long: the machine below, which stood still, the kernel, which ran
// something else, or what is measured. It is for tests and benchmarks of how slow the slowest may be, on machines that others
// share.
package stalls
