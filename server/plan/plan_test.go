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
	c.NodeDecisions.Value, c.ShardCalls.Value, c.LimitWork.Value = 100_000, 100_000, 0.5
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
		// 1 M/s a region ÷ 60 k/s = 17 nodes and a spare; 3 M/s ÷ (100 k/s ÷ 1.5 × 0.6) = 75 shards; 100 M × 2 × 200 bytes.
		{Exact, 54, 75, 40e9, 0, 200},
		// 1.5 M/s without a lease and as many on hot keys at most: 15,000 keys × 54 nodes × 16.5/s is more.
		{Lease, 54, 75, 40e9, 10, 200},
		// 54 nodes × 10/s fit one shard a region; 40 bytes × 33.3 M clients × 54 nodes; (2−1) × 100/s × 180 ms.
		{Async, 54, 3, 72e9, 18, 0},
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
		if got := value(t, p, "memory", "in all"); math.Abs(got-tt.memory) > 1 {
			t.Errorf("%s: got %g bytes, want %g", tt.mode, got, tt.memory)
		}
	}
}

func TestMemoryCanNeedMoreShardsThanCalls(t *testing.T) {
	in := hundredMillion(Exact)
	in.Average, in.Peak, in.ShardMemory = 100, 100, 4e9
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
	for n, want := range map[float64]string{0: "0", 0.6: "0.6", 9999: "9999", 188_724: "188.7k", 1.25e9: "1.25G"} {
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
		{c.NodeDecisions.Value, measuredBy("### gRPC, 64 requests in flight", "| **headgate**, one stream |")},
	} {
		if math.Abs(tt.got/tt.want-1) > 0.01 {
			t.Errorf("got a default of %g/s, want %g/s as in bench/RESULTS.md", tt.got, tt.want)
		}
	}
}
