// Package harness has the code that all parts of the benchmark share: parts and scenarios, results and reports, bars,
// child processes, and statistics.
package harness
