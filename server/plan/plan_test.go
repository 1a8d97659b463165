package plan

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// hundredMillion is the load of the documentation.
func hundredMillion(mode Mode) Input {
	return Input{
		Clients: 100e6, Average: 1e6, Peak: 3e6, Limits: 2, Limit: headgate.PerSecond(100), Offered: 2,
		Mode: mode, Regions: 3,
		RegionDelay: 40 * time.Millisecond, Utilization: 0.6, Hot: 0.5, ShardMemory: 16e9,
	}
}

// simple are constants that make the arithmetic easy to follow.
func simple() Constants {
	c := Defaults(1e6)
	c.ShardCalls.Value, c.LimitWork.Value = 100_000, 0.5
	c.OnNode.Decisions.Value, c.OnNode.LimitWork.Value = 100_000, 0.25
	c.InRedis.Decisions.Value, c.InRedis.LimitWork.Value = 30_000, 0.5
	c.ShardBytes.Value, c.NodeBytes.Value, c.RoundTrip.Value = 200, 20, 200
	return c
}

// value returns the value of a line.
func value(t *testing.T, p *Plan, section, name string) float64 {
	t.Helper()
	for _, l := range p.Lines {
		if l.Section == section && l.Name == name {
			return l.Value
		}
	}
	t.Errorf("got no line %q in %q", name, section)
	return math.NaN()
}

func TestPlansAreWhatTheArithmeticGives(t *testing.T) {
	for _, tt := range []struct {
		mode                               Mode
		nodes, shards, memory, over, added float64
	}{
		// 1 M/s a region ÷ (30 k/s ÷ 1.5 × 0.6) = 84 nodes and a spare; in each of three regions 1 M/s ÷ (100 k/s ÷ 1.5 ×
		// 0.6) = 25 shards, and 79 for totals; 100 M × 2 × 200 bytes in each; (2−1) × 100/s × (3 s + 2 × 40 ms) between
		// regions.
		{Exact, 255, 312, 120e9, 308, 200},
		// 1.5 M/s without a lease and as many on hot keys at most: 15,000 keys × 255 nodes × 16.5/s is more. 100/s × 0.1 s
		// in a region.
		{Lease, 255, 312, 120e9, 318, 200},
		// 1 M/s a region ÷ (100 k/s ÷ 1.25 × 0.6) = 21 nodes and a spare. Counters are on nodes, and notes in the global
		// store.
		{Async, 66, 3, 0, 308, 0},
	} {
		p, err := New(hundredMillion(tt.mode), simple())
		if err != nil {
			t.Fatal(err)
		}
		if p.Nodes != tt.nodes || p.Shards != tt.shards ||
			math.Abs(p.OverAdmission-tt.over) > 1e-9 || p.AddedLatency != tt.added {
			t.Errorf("%s: got %g nodes, %g shards, %g units over, %g µs, want %g, %g, %g, %g", tt.mode,
				p.Nodes, p.Shards, p.OverAdmission, p.AddedLatency, tt.nodes, tt.shards, tt.over, tt.added)
		}
		if tt.memory == 0 {
			continue
		}
		if got := value(t, p, "memory", "in all"); math.Abs(got-tt.memory) > 1 {
			t.Errorf("%s: got %g bytes, want %g", tt.mode, got, tt.memory)
		}
	}
}

// A node makes fewer decisions if it makes them in Redis.
func TestDecisionsPerNodeDependOnTheMode(t *testing.T) {
	in := hundredMillion(Exact)
	in.Clients, in.Average, in.Peak, in.Regions, in.Hot = 1e4, 1000, 1000, 1, 0.4
	for mode, want := range map[Mode]float64{
		Exact: 0.6 * 30_000 / 1.5,
		Async: 0.6 * 100_000 / 1.25,
		// Four keys of 100/s are hot at once, and each needs 16.5 calls a second for leases.
		Lease: (0.6 - 4*16.5*(1/20e3-1/80e3)) / (0.6/20e3 + 0.4/80e3),
	} {
		in.Mode = mode
		p, err := New(in, simple())
		if err != nil {
			t.Fatal(err)
		}
		if got := value(t, p, "nodes", "planned decisions per node"); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s: got %g/s, want %g/s", mode, got, want)
		}
	}
}

func TestTooFewNodesAreNamed(t *testing.T) {
	in := hundredMillion(Exact)
	in.Average, in.Peak, in.Regions = 10e6, 10e6, 1
	for nodes, wantFew := range map[int]bool{0: false, 1: true, 833: true, 834: false} { // 10 M/s ÷ 12 k/s
		in.Nodes = nodes
		p, err := New(in, simple())
		if err != nil {
			t.Fatal(err)
		}
		few := false
		for _, l := range p.Lines {
			few = few || strings.HasPrefix(l.How, "TOO FEW")
		}
		if p.NeededNodes != 834 || few != wantFew {
			t.Errorf("%d nodes: got %g needed and too few %t, want 834 and %t", nodes, p.NeededNodes, few, wantFew)
		}
	}
}

// A node with a hundred clients of ten requests a second exchanges on average 1 − e^−0.225 of them in every exchange,
// and 1 − e^−1 in every second one.
func TestExchangesOfAsyncAreCountedByGroups(t *testing.T) {
	in := hundredMillion(Async)
	in.Clients, in.Average, in.Peak, in.Limits, in.Regions, in.Nodes = 100, 1000, 1000, 1, 1, 1
	p, err := New(in, simple())
	if err != nil {
		t.Fatal(err)
	}
	changed, read := 100*(1-math.Exp(-0.225)), 100*(1-math.Exp(-1))
	groups := func(keys float64) float64 { return 64 * (1 - math.Pow(63.0/64, keys)) }
	const rounds = 1 / 0.0225
	for name, want := range map[string]float64{
		"calls": rounds * (groups(changed) + groups(read)) / 2,
		"notes": rounds * (changed + read) / 2,
	} {
		if got := value(t, p, "redis", name); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s: got %g/s, want %g/s", name, got, want)
		}
	}
	in.Nodes = 2 // each has half of the requests
	more, err := New(in, simple())
	if err != nil {
		t.Fatal(err)
	}
	if one, two := value(t, p, "redis", "work of a call"), value(t, more, "redis", "work of a call"); two <= one-5 {
		t.Errorf("got %g µs per call with two nodes, %g with one; want the notes of both to be read", two, one)
	}
	if one, two := value(t, p, "redis", "memory of notes"), value(t, more, "redis", "memory of notes"); two <= one {
		t.Errorf("got %g bytes of notes with two nodes, want more than %g with one", two, one)
	}
}

// Each region counts in a Redis of its own, and its nodes wait for no other region.
func TestRegionsHaveRedisOfTheirOwn(t *testing.T) {
	in := hundredMillion(Exact)
	p, err := New(in, simple())
	if err != nil {
		t.Fatal(err)
	}
	in.Peak, in.Average, in.Regions = in.Peak/3, in.Average/3, 1
	one, err := New(in, simple())
	if err != nil {
		t.Fatal(err)
	}
	want := 3 * (one.Shards + value(t, p, "totals of regions", "shards in a region"))
	if p.Shards != want || p.GlobalShards < 1 || one.GlobalShards != 0 {
		t.Errorf("got %g shards and %g of the global store, want %g and some", p.Shards, p.GlobalShards, want)
	}
	if p.AddedLatency != one.AddedLatency || one.OverAdmission != 0 {
		t.Errorf("got %g µs and %g µs, %g units over, want the same latency, and none in one region", p.AddedLatency,
			one.AddedLatency, one.OverAdmission)
	}
}

func TestMemoryCanNeedMoreShardsThanCalls(t *testing.T) {
	in := hundredMillion(Exact)
	in.Average, in.Peak, in.ShardMemory, in.Regions = 100, 100, 4e9, 1
	p, err := New(in, simple())
	if err != nil {
		t.Fatal(err)
	}
	if p.Shards != 10 {
		t.Errorf("got %g shards, want 40 GB ÷ 4 GB = 10", p.Shards)
	}
}

func TestImpossibleInputIsRefused(t *testing.T) {
	for want, change := range map[string]func(*Input){
		"clients":     func(in *Input) { in.Clients = 0 },
		"average":     func(in *Input) { in.Peak = 10 },
		"limits":      func(in *Input) { in.Limits = 0 },
		"regions":     func(in *Input) { in.Regions = 0 },
		"utilization": func(in *Input) { in.Utilization = 1.1 },
		"hot":         func(in *Input) { in.Hot = -1 },
		"NaN":         func(in *Input) { in.Hot = math.NaN() },
		"offer NaN":   func(in *Input) { in.Offered = math.NaN() },
		"of NaN":      func(in *Input) { in.Utilization = math.NaN() },
		"+Inf":        func(in *Input) { in.Offered = math.Inf(1) },
		"mode":        func(in *Input) { in.Mode = "gossip" },
		"offer":       func(in *Input) { in.Offered = 0.5 },
		"nodes":       func(in *Input) { in.Nodes = 4 },
		"per shard":   func(in *Input) { in.ShardMemory = 1 },
		"no rate":     func(in *Input) { in.Limit = headgate.InFlight(5) },
	} {
		in := hundredMillion(Exact)
		change(&in)
		if _, err := New(in, Defaults(1e6)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one about %s", err, want)
		}
	}
}

func TestNumbersAreParsedAndFormatted(t *testing.T) {
	for text, want := range map[string]float64{"1500": 1500, "20k": 20e3, "100M": 100e6, "1.5G": 1.5e9, "0.5": 0.5} {
		if got, err := ParseNumber(text); err != nil || got != want {
			t.Errorf("%s: got %g, %v, want %g", text, got, err, want)
		}
	}
	for _, text := range []string{"", "M", "-1", "10x", "1e20", "NaN"} {
		if got, err := ParseNumber(text); err == nil {
			t.Errorf("%q: got %g, want an error", text, got)
		}
	}
	for n, want := range map[float64]string{0: "0", 0.000108: "0.000108", 0.6: "0.6", 9999: "9999", 188_724: "188.7k", 1.25e9: "1.25G"} {
		if got := Number(n); got != want {
			t.Errorf("%g: got %s, want %s", n, got, want)
		}
	}
	if got, want := Bytes(35.6e9), "35.6 GB"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDefaultsAreThoseOfTheBenchmarks(t *testing.T) {
	data, err := os.ReadFile("../../bench/RESULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	// measuredBy returns the first figure of Headgate's row in the table under a heading.
	measuredBy := func(heading, row string) float64 {
		_, section, _ := strings.Cut(string(data), heading)
		_, cells, _ := strings.Cut(section, row)
		cell, _, _ := strings.Cut(cells, "|")
		n, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(cell), "\u202f", ""), 64)
		if err != nil {
			t.Errorf("%s: got no figure in %q", heading, cell)
		}
		return n
	}
	c := Defaults(100e6)
	for _, tt := range []struct{ got, want float64 }{
		{c.ShardCalls.Value, 1e9 / measuredBy("#### Redis, 100 k keys, 64 goroutines", "| **headgate** |")},
		{c.OnNode.Decisions.Value, measuredBy("### gRPC, 64 requests in flight", "| **headgate**, one stream |")},
	} {
		if math.Abs(tt.got/tt.want-1) > 0.01 {
			t.Errorf("got a default of %g/s, want %g/s as in bench/RESULTS.md", tt.got, tt.want)
		}
	}
}
