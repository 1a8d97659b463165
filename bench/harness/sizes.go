package harness

import (
	"time"
)

// sizes say how much is measured.
type sizes struct {
	// Rounds is how often every contender is measured in the scenarios of speed and garbage collection.
	Rounds int
	// Ops is how many decisions one measurement of speed is, and Picks the length of the sequence they are from, a power
	// of two.
	Ops, Picks int
	// Live is how many keys the keyed scenarios of speed have.
	Live int
	// Clients is how many registered clients there are, and ClientOps one measurement of them.
	Clients, ClientOps int
	// Requests is how many different ones rules are asked about.
	Requests int
	// Memory are the numbers of keys at which memory is measured, Table those at which headgate's table is looked at.
	Memory, Table []int
	// Huge is how many keys the largest table has, HugeOps one measurement of it, HugeRounds how many there are.
	Huge, HugeOps, HugeRounds int
	// Collected is how many keys garbage collection has to pass by.
	Collected int
	// Grown is to how many keys a table grows while insertions are timed, GrowthRounds how often.
	Grown, GrowthRounds int
	// RedisKeys is how many keys there are in Redis, and RedisOps one measurement there.
	RedisKeys, RedisOps int
	// HalfKeys is how many there are at half load, which is HalfRounds of HalfLength.
	HalfKeys, HalfRounds int
	HalfLength           time.Duration
	// Connections is how many connections load a proxy, GatewayRounds how often it is measured, and LoadLength how long
	// each measurement of its speed is. Of its answers, each round has PaceWindows of PaceLength, behind PaceWarming.
	Connections, GatewayRounds          int
	PaceWindows                         int
	LoadLength, PaceLength, PaceWarming time.Duration
	// NoiseLength is how long a window is in which one client floods, or does not.
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

// QuickSizes are for seeing that everything runs; the numbers mean nothing.
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
