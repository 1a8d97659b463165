package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/harness"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestReportIsAsInTheGoldenFile(t *testing.T) {
	for _, test := range []struct {
		name    string
		results *harness.Results
	}{
		{"full", sampleResults()},
		{"failed", &harness.Results{
			Part: "core", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: time.Minute, Only: "gc", Sizes: harness.FullSizes(11),
			Machine: sampleMachine(), Failures: []string{"gc: fill go-limiter with 10000000 keys: EOF"},
		}},
		{"gateway", sampleGateway()},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.results.Bars = partOf(test.results.Part).Bars(test.results)
			got := harness.ReportOf(partOf(test.results.Part), test.results)
			path := filepath.Join("testdata", "report-"+test.name+".md")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the report differs from %s; go test -update rewrites it. Got:\n%s", path, got)
			}
		})
	}
}

func sampleMachine() harness.Machine {
	return harness.Machine{CPU: "Abacus 9", Cores: 2, Memory: 24 << 30, Kernel: "6.1", Go: "go1.26 linux/amd64", HugePages: "madvise", Load: 0.03, Steal: 0.001}
}

// sampleRow returns a row whose samples are around ns.
func sampleRow(name, title string, r harness.Role, ns, allocs, admitted float64) harness.SpeedRow {
	samples := []float64{ns, ns * 0.9, ns * 1.2}
	return harness.SpeedRow{Contender: name, Title: title, Role: r, Samples: samples, Spread: harness.SpreadOf(samples), Allocs: allocs, Admitted: admitted}
}

func sampleTable(id, title string, headgate, least, them float64) harness.SpeedTable {
	return harness.SpeedTable{ID: id, Title: title, Goroutines: 1, Rows: []harness.SpeedRow{
		sampleRow("loop", "the loop alone", harness.Loop, least/4, 0, 1),
		sampleRow("floor", "floor", harness.Floor, least, 0, 1),
		sampleRow("headgate", "**headgate**", harness.Ours, headgate, 0.00001, 1),
		sampleRow("slow", "slow/limiter", harness.Peer, 3*them, 2, 0.98),
		sampleRow("quick", "quick/limiter", harness.Peer, them, 0, 1),
	}}
}

func sampleFilling(keys int, perKey, overshoot float64) harness.Filling {
	const empty = 8 << 20
	bytes := int64(float64(keys) * perKey)
	return harness.Filling{
		Keys: keys, Seconds: float64(keys) / 4e6,
		Before: harness.Footprint{Heap: 1 << 20, RSS: empty, Peak: empty},
		After:  harness.Footprint{Heap: 1<<20 + bytes, RSS: empty + bytes, Peak: empty + int64(float64(bytes)*overshoot)},
	}
}

// sampleResults meets some bars and misses others.
func sampleResults() *harness.Results {
	r := &harness.Results{
		Part: "core", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: 21 * time.Minute, Sizes: harness.FullSizes(11), Machine: sampleMachine(),
		Versions: []harness.ModuleVersion{{Module: "example.com/quick/limiter", Version: "v1.2.3"}, {Module: "example.com/slow/limiter", Version: "v0.1.0"}},
		Speed: []harness.SpeedTable{
			sampleTable("hot-allowed-many", "One hot key, every request admitted, 16 goroutines", 60, 50, 59),
			sampleTable("hot-denied-many", "One hot key over its limit, 16 goroutines", 30, 20, 59),
			sampleTable("uniform-1", "1 M live keys, uniform, 1 goroutine", 200, 186, 433),
			sampleTable("uniform-2", "1 M live keys, uniform, 2 goroutines", 110, 95, 316),
			sampleTable("zipf-2", "1 M live keys, Zipf, 2 goroutines", 70, 50, 1646),
		},
		Table: &harness.TableGrowth{
			At:   []harness.TablePoint{{Keys: 1_000_000, Bytes: 30_000_000}, {Keys: 1_250_000, Bytes: 32_000_000}},
			Most: harness.TablePoint{Keys: 1_010_203, Bytes: 41_000_000}, Best: harness.TablePoint{Keys: 1_200_000, Bytes: 30_000_000},
		},
		Huge: &harness.HugeResult{
			Keys: 100_000_000, Live: 100_000_000,
			Fillings: map[string]harness.Filling{"headgate": sampleFilling(100_000_000, 24, 1.2), "floor": sampleFilling(100_000_000, 21.5, 1)},
			Speed: []harness.SpeedTable{
				sampleTable("huge-1", "100 M live keys, uniform, 1 goroutine", 210, 200, 400),
				sampleTable("huge-2", "100 M live keys, uniform, 2 goroutines", 150, 100, 400),
			},
		},
		GC: []harness.GcRow{
			{Contender: "loop", Title: "an empty process", Role: harness.Loop, CPU: harness.SpreadOf([]float64{0.3, 0.4}), Pause: harness.SpreadOf([]float64{0.02, 0.05})},
			{Contender: "headgate", Title: "**headgate**", Role: harness.Ours, Keys: 10_000_000, CPU: harness.SpreadOf([]float64{2, 3, 11}), Pause: harness.SpreadOf([]float64{0.03, 0.6})},
			{Contender: "slow", Title: "slow/limiter", Role: harness.Peer, Keys: 10_000_000, CPU: harness.SpreadOf([]float64{1500, 1600}), Pause: harness.SpreadOf([]float64{0.1, 0.2})},
		},
		Growth: []harness.GrowthRow{
			{Contender: "loop", Title: "the loop alone", Role: harness.Loop, Runs: []harness.Growth{{Keys: 10_000_000, Seconds: 2.1, P50: 30, P99: 40, P999: 50, P9999: 4_000, Max: 2_000_000, Mean: 31, Above100us: 40}}},
			{Contender: "headgate", Title: "**headgate**", Role: harness.Ours, Runs: []harness.Growth{
				{Keys: 10_000_000, Seconds: 2, P50: 90, P99: 400, P999: 12_000, P9999: 210_000, Max: 3_000_000, Mean: 180, Above100us: 60, Steps: 36_000, LongSteps: 20},
				{Keys: 10_000_000, Seconds: 2.2, P50: 94, P99: 500, P999: 14_000, P9999: 230_000, Max: 1_500_000_000, Mean: 190, Above100us: 80, Steps: 36_200, LongSteps: 30},
			}},
			{Contender: "floor", Title: "floor", Role: harness.Floor, Runs: []harness.Growth{{Keys: 10_000_000, Seconds: 1.4, P50: 60, P99: 200, P999: 1_000, P9999: 40_000, Max: 2_000_000, Mean: 90, Above100us: 50}}},
		},
	}
	for _, c := range []struct {
		name, title       string
		role              harness.Role
		perKey, overshoot float64
	}{{"headgate", "**headgate**", harness.Ours, 28, 1.3}, {"slow", "slow/limiter", harness.Peer, 140, 2.1}} {
		row := harness.MemoryRow{Contender: c.name, Title: c.title, Role: c.role}
		for _, keys := range r.Sizes.Memory {
			row.Fillings = append(row.Fillings, sampleFilling(keys, c.perKey, c.overshoot))
		}
		r.Memory = append(r.Memory, row)
	}
	return r
}

func TestPartIsPutInThePlaceOfTheOneBefore(t *testing.T) {
	text := ""
	for _, step := range []struct{ part, report, want string }{
		{"redis", "r1\n", "\n<!-- begin redis -->\nr1\n<!-- end redis -->\n"},
		{"core", "c1\n", "\n<!-- begin core -->\nc1\n<!-- end core -->\n\n<!-- begin redis -->\nr1\n<!-- end redis -->\n"},
		{"redis", "r2\n", "\n<!-- begin core -->\nc1\n<!-- end core -->\n\n<!-- begin redis -->\nr2\n<!-- end redis -->\n"},
	} {
		var err error
		if text, err = replacePart(text, step.part, step.report); err != nil || text != reportIntro+step.want {
			t.Fatalf("after %s: %q, %v; want %q", step.part, text, err, step.want)
		}
	}
	if _, err := replacePart("\n<!-- begin core -->\nhalf", "redis", "r"); err == nil {
		t.Error("a part without an end is replaced without an error")
	}
}
