package harness

import (
	"time"
)

// sizes are the sizes of the measurements.
type sizes struct {
	// Rounds is the number of rounds in the scenarios of speed and garbage collection.
	Rounds int
	// Ops is the number of decisions in one measurement of speed. Picks is the length of the sequence of keys, and a power
	// of two.
	Ops, Picks int
	// Live is the number of keys in the speed scenarios with keys.
	Live int
	// Clients is the number of registered clients, and ClientOps the number of decisions in one measurement of them.
	Clients, ClientOps int
	// Requests is the number of different requests that are matched against rules.
	Requests int
	// Memory has the numbers of keys at which memory is measured, and Table those at which the size of headgate's table
	// is.
	Memory, Table []int
	// Huge is the number of keys in the largest table, HugeOps the decisions in one measurement, and HugeRounds their
	// number.
	Huge, HugeOps, HugeRounds int
	// Collected is the number of keys in memory when garbage collection is measured.
	Collected int
	// Grown is the number of keys to which a table grows while insertions are timed, and GrowthRounds how often it does.
	Grown, GrowthRounds int
	// RedisKeys is the number of keys in Redis, and RedisOps the number of decisions in one measurement there.
	RedisKeys, RedisOps int
	// HalfKeys is the number of keys at half load. That has HalfRounds rounds of HalfLength.
	HalfKeys, HalfRounds int
	HalfLength           time.Duration
	// Connections is the number of connections that load a proxy, GatewayRounds the number of rounds, and LoadLength the
	// duration of one measurement at full load. Response times are measured in PaceWindows windows of PaceLength per
	// round, after PaceWarming windows as a warm-up.
	Connections, GatewayRounds          int
	PaceWindows                         int
	LoadLength, PaceLength, PaceWarming time.Duration
	// NoiseLength is the duration of a window with or without a flooding client.
	NoiseLength time.Duration
}

// FullSizes returns the sizes of a full run.
func FullSizes(rounds int) sizes {
	const million = 1_000_000
	return sizes{
		Rounds: rounds,
		Ops:    1 << 20, Picks: 1 << 22,
		Live:    million,
		Clients: million, ClientOps: 1 << 19,
		Requests: 10_000,
		Memory:   []int{million, 2 * million, 5 * million, 10 * million},
		Table: []int{
			million, 5 * million / 4, 3 * million / 2, 7 * million / 4, 2 * million, 5 * million / 2, 3 * million, 7 * million / 2,
			4 * million, 5 * million, 6 * million, 7 * million, 8 * million, 9 * million, 10 * million,
			12 * million, 14 * million, 16 * million, 20 * million,
		},
		Huge: 100 * million, HugeOps: 1 << 22, HugeRounds: rounds,
		Collected: 10 * million,
		Grown:     10 * million, GrowthRounds: min(rounds, 5),
		RedisKeys: 100_000, RedisOps: 1 << 16,
		HalfKeys: 10_000, HalfRounds: max(rounds, 15), HalfLength: time.Second,
		Connections: 64, GatewayRounds: rounds, LoadLength: 1500 * time.Millisecond,
		PaceWindows: 8, PaceLength: 200 * time.Millisecond, PaceWarming: 50 * time.Millisecond,
		NoiseLength: time.Second,
	}
}

// QuickSizes returns sizes to check that everything runs. The resulting figures mean nothing.
func QuickSizes(rounds int) sizes {
	return sizes{
		Rounds: min(rounds, 2),
		Ops:    1 << 12, Picks: 1 << 13,
		Live:    5_000,
		Clients: 5_000, ClientOps: 1 << 12,
		Requests: 1_000,
		Memory:   []int{5_000, 20_000},
		Table:    []int{5_000, 10_000, 20_000},
		Huge:     50_000, HugeOps: 1 << 12, HugeRounds: min(rounds, 2),
		Collected: 20_000,
		Grown:     20_000, GrowthRounds: min(rounds, 2),
		RedisKeys: 500, RedisOps: 1 << 10,
		HalfKeys: 500, HalfRounds: 2, HalfLength: 50 * time.Millisecond,
		Connections: 8, GatewayRounds: 1, LoadLength: 100 * time.Millisecond,
		PaceWindows: 1, PaceLength: 50 * time.Millisecond, PaceWarming: 10 * time.Millisecond,
		NoiseLength: 50 * time.Millisecond,
	}
}
