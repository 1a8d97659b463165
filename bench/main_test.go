package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/bench/core"
	"github.com/headgate/headgate/bench/gateway"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
	"github.com/headgate/headgate/bench/site"
	"github.com/headgate/headgate/bench/stalls"
)

// TestMain lets the test binary be its own child, as the program is.
func TestMain(m *testing.M) {
	stalls.Main()
	if os.Getenv("GORACE") == "" {
		// A child of a race-enabled test would otherwise sleep a second before it ends.
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
	}
	if os.Getenv(harness.ChildEnv) != "" {
		if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestQuickRunAnswersEveryScenario(t *testing.T) {
	dir := t.TempDir()
	numbers := filepath.Join(dir, "numbers.json")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-quick", "-json", numbers}, strings.NewReader(""), &out, log); err != nil {
		t.Fatal(err)
	}

	text, err := os.ReadFile(numbers)
	if err != nil {
		t.Fatal(err)
	}
	var all []harness.Results
	if err := json.Unmarshal(text, &all); err != nil || len(all) != len(parts()) {
		t.Fatalf("%v: the numbers of %d parts, want %d", err, len(all), len(parts()))
	}
	for _, r := range all {
		for _, b := range r.Bars {
			if b.Verdict == harness.NotMeasured {
				t.Errorf("%s: bar %q, %q was not measured", r.Part, b.What, b.Want)
			}
		}
	}
	for _, r := range all {
		checkLoads(t, &r)
	}
	r := all[0]
	for _, e := range limiters.Entries() {
		checkTakesPart(t, &r, e)
	}
	if len(r.GC) != 1+len(core.Collected) || len(r.Growth) != 5 || r.Table == nil || len(r.Table.At) != len(r.Sizes.Table) {
		t.Errorf("got %d rows of collections, %d of growth and the table %+v", len(r.GC), len(r.Growth), r.Table)
	}
	if !strings.Contains(out.String(), "toy sizes") || !strings.Contains(out.String(), "### Bars") {
		t.Errorf("the report lacks its warning or its bars:\n%s", out.String())
	}
	if lines, err := os.ReadFile(log.Name()); err != nil || !bytes.Contains(lines, []byte("growth, round 1 of")) || bytes.Contains(lines, []byte("\r")) {
		t.Errorf("the log of a run without a terminal is not a line for each stage: %v\n%s", err, lines)
	}
}

// checkLoads looks whether all fronts were measured in every round of the part at the gateway.
func checkLoads(t *testing.T, r *harness.Results) {
	t.Helper()
	if r.Part != "gateway" {
		return
	}
	for id, list := range map[string][]site.Front{
		"proxies": gateway.ProxyFronts(), "refusals": gateway.RefusingFronts(), "http2": gateway.HTTP2Fronts(),
		"large": gateway.PeerFronts(), "posts": gateway.PeerFronts(), "new-connections": gateway.PeerFronts(), "tls": gateway.HTTP2Fronts(),
		"access-log": gateway.LoggingFronts(), "connections-4000": gateway.ConnectionFronts(),
	} {
		for _, f := range list {
			row := r.LoadNamed(id).Row(f.Name)
			if row == nil || len(row.Rates) != r.Sizes.GatewayRounds || row.Rate.Min <= 0 {
				t.Errorf("%s, %s: got %+v, want %d rates above 0", id, f.Name, row, r.Sizes.GatewayRounds)
			}
		}
	}
	for _, f := range gateway.PeerFronts() {
		if row := r.Steady.Row(f.Name); row == nil || row.Runs[0].Sent == 0 {
			t.Errorf("steady, %s: got %+v, want windows with requests", f.Name, row)
		}
	}
	for _, f := range gateway.PacedFronts() {
		row := r.Pace.Row(f.Name)
		if row == nil || len(row.Runs) != r.Sizes.GatewayRounds || row.Runs[0].Requests == 0 || row.Runs[0].P50 <= 0 {
			t.Errorf("half-load, %s: got %+v, want %d runs with answers", f.Name, row, r.Sizes.GatewayRounds)
		}
	}
}

// checkTakesPart looks whether a contender is in every table it belongs in, with sane numbers.
func checkTakesPart(t *testing.T, r *harness.Results, e limiters.Entry) {
	t.Helper()
	for _, g := range core.SpeedGroups() {
		for _, c := range g.Cases {
			row := r.SpeedNamed(c.Id).Row(e.Name)
			if (row != nil) != g.TakesPart(e) {
				t.Errorf("%s is in %s: %v, want %v", e.Name, c.Id, row != nil, g.TakesPart(e))
			}
			if row == nil {
				continue
			}
			if len(row.Samples) != r.Sizes.Rounds || row.Spread.Median <= 0 {
				t.Errorf("%s, %s: samples %v, want %d above 0", c.Id, e.Name, row.Samples, r.Sizes.Rounds)
			}
			// A goroutine that is held up between clock and decision may find others far ahead of it, and throttled refuses
			// after ten lost races.
			if (g.Name == "hot-allowed" || g.Name == "uniform") && row.Admitted < 0.9 && (e.Name != "throttled" || row.Admitted < 0.2) {
				t.Errorf("%s, %s: admitted %v of the requests, want all, or nearly", c.Id, e.Name, row.Admitted)
			}
			if g.Name == "hot-denied" && row.Admitted > 0.1 && e.Role != harness.Loop {
				t.Errorf("%s, %s: admitted %v of the requests, want next to none", c.Id, e.Name, row.Admitted)
			}
		}
	}
}

func TestPartOfAReportDoesNotReplaceAWholeOne(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "RESULTS.md"},
		{[]string{"-rounds", "3"}, "RESULTS.md"},
		{[]string{"-quick"}, "-"},
		{[]string{"-only", "gc"}, "-"},
		{[]string{"-only", "gc", "-out", "gc.md"}, "gc.md"},
	} {
		f, err := parseFlags(test.args, os.Stderr)
		if err != nil || f.out != test.want {
			t.Errorf("parseFlags(%q) writes to %q, %v, want %q", test.args, f.out, err, test.want)
		}
	}
}

func TestCommandLineThatMakesNoSense(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-rounds", "0"}, "-rounds 0"},
		{[]string{"uniform"}, `argument "uniform"`},
		{[]string{"-only", "("}, "-only"},
		{[]string{"-only", "nothing"}, "matches none"},
		{[]string{"-part", "moon"}, `-part "moon"`},
		{[]string{"-child", "mem", "-contender", "nobody"}, `"nobody"`},
		{[]string{"-child", "mem", "-quota", "none"}, `"none"`},
		{[]string{"-child", "sleep"}, `"sleep"`},
	} {
		err := run(t.Context(), test.args, strings.NewReader(""), &bytes.Buffer{}, os.Stderr)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("run(%q) = %v, want an error with %q", test.args, err, test.want)
		}
	}
}
