// Package sim simulates Headgate in virtual time. It runs the real algorithms, engine, guard, leases and exchanges of
// counters on simulated nodes, clocks, networks and Redis servers. The same scenario and seed give the same results.
package sim
