// Package harness is what all parts of the benchmark share: parts and scenarios, the results and the report made from
// them, bars, child processes, and the statistics and figures of the tables.
package harness
