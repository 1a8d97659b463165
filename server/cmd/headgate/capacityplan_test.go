//go:build !race

// Nodes make fewer exchanges under the race detector.

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/cmd/headgate/internal/cli"
	"github.com/headgate/headgate/server/loadgen"
	"github.com/headgate/headgate/server/loadgen/target"
	"github.com/headgate/headgate/server/plan"
)

const asyncRules = "rules:\n  - { id: per-key, key: api_key, limits: 100/s, consistency: async }\n"

// A syncLoad is a load of nodes that share limits in mode async.
type syncLoad struct{ nodes, clients, rate int }

// plan returns the plan that the command prints for a load.
func (l syncLoad) plan(t *testing.T) *plan.Plan {
	t.Helper()
	rate := strconv.Itoa(l.rate)
	code, stdout, stderr := run(t, "plan", "--mode", "async", "--dau", strconv.Itoa(l.clients), "--rps", rate,
		"--peak", rate, "--nodes", strconv.Itoa(l.nodes), "-o", "json")
	var p plan.Plan
	if err := json.Unmarshal([]byte(stdout), &p); code != 0 || err != nil {
		t.Fatalf("got exit code %d, %v\n%s", code, err, stderr)
	}
	return &p
}

// lineOf returns the value of a line of a plan.
func lineOf(t *testing.T, p *plan.Plan, name string) float64 {
	t.Helper()
	for _, line := range p.Lines {
		if line.Name == name {
			return line.Value
		}
	}
	t.Fatalf("the plan has no line %q", name)
	return math.NaN()
}

// Real nodes and a real Redis need as many calls and bytes as a plan of mode async says.
func TestPlanOfAsyncIsWhatNodesNeed(t *testing.T) {
	for _, load := range []syncLoad{{1, 10_000, 1000}, {1, 5, 750}, {3, 500, 1500}} {
		t.Run(fmt.Sprintf("%d nodes, %d clients, %d per second", load.nodes, load.clients, load.rate), func(t *testing.T) {
			server := redistest.Standalone(t, redistest.Options{})
			var targets []target.Target
			for range load.nodes {
				node := serve(t, append(countingIn(t, server), "--gateway-addr", "off", "--rules", rulesFile(t, asyncRules))...)
				to, err := target.Open(t.Context(), target.Options{Address: "grpc://" + node.grpc, Rule: "per-key"})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = to.Close() })
				targets = append(targets, to)
			}
			p := load.plan(t)
			wantCalls, wantBytes := lineOf(t, p, "calls"), lineOf(t, p, "bytes to and from it")
			var report string
			for range 3 { // other programs on the machine can delay exchanges
				m := load.measure(t, server, targets)
				report = fmt.Sprintf("%.0f calls/s and %.0f bytes/s, planned %.0f and %.0f", m.calls, m.bytes, wantCalls, wantBytes)
				t.Logf("got %s; %.1f µs per call, planned %.1f", report, m.micros, lineOf(t, p, "work of a call"))
				if math.Abs(m.calls/wantCalls-1) <= 0.25 && math.Abs(m.bytes/wantBytes-1) <= 0.25 {
					checkNoteMemory(t, server, p)
					return
				}
			}
			t.Errorf("got %s; want at most 25 %% more or less", report)
		})
	}
}

// A syncMeasurement has the calls and bytes per second of a Redis, and the mean time of a call.
type syncMeasurement struct{ calls, bytes, micros float64 }

// measure sends a load to nodes and measures their Redis meanwhile.
func (l syncLoad) measure(t *testing.T, server *redistest.Server, targets []target.Target) syncMeasurement {
	t.Helper()
	const warmUp, duration = time.Second, 3 * time.Second
	done := make(chan loadgen.Report, len(targets))
	for _, to := range targets {
		load, err := loadgen.New(loadgen.Options{
			Target: to, Rate: float64(l.rate / l.nodes), Poisson: true, Duration: warmUp + duration + time.Second,
			Clients: l.clients, Prefix: "client-",
		})
		if err != nil {
			t.Fatal(err)
		}
		go func() { done <- load.Do(t.Context()) }()
	}
	time.Sleep(warmUp)
	server.ResetStats()
	began := time.Now()
	time.Sleep(duration)
	stats, network := server.Info("commandstats"), server.Info("stats")
	took := time.Since(began).Seconds()
	for range targets {
		if r := <-done; r.Errors > 0 {
			t.Errorf("%d of %d requests failed: %s", r.Errors, r.Sent, r.FirstError)
		}
	}
	number := func(text string) float64 {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	field := func(name string) float64 {
		_, rest, _ := strings.Cut(stats["cmdstat_evalsha"], name+"=")
		value, _, _ := strings.Cut(rest, ",")
		return number(value)
	}
	return syncMeasurement{
		calls:  field("calls") / took,
		bytes:  (number(network["total_net_input_bytes"]) + number(network["total_net_output_bytes"])) / took,
		micros: field("usec") / field("calls"),
	}
}

// checkNoteMemory compares the memory of keys with notes with the plan's.
func checkNoteMemory(t *testing.T, server *redistest.Server, p *plan.Plan) {
	t.Helper()
	reply, err := server.Do("KEYS", "hg:*{*}?*")
	if err != nil {
		t.Fatal(err)
	}
	var bytes, keys float64
	for _, key := range reply.([]any) {
		bytes += float64(server.MemoryUsage(key.(string)))
		keys++
	}
	want := lineOf(t, p, "memory of notes") / lineOf(t, p, "keys with notes")
	t.Logf("got %.0f bytes per key with notes, planned %.0f", bytes/keys, want)
	if math.Abs(bytes/keys/want-1) > 0.25 {
		t.Errorf("got %.0f bytes per key with notes, planned %.0f", bytes/keys, want)
	}
}

// The memory of counters is measured first, and the node takes an hour.
func TestInterruptedCalibrationPrintsAPlan(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "headgate", "plan", "--dau", "1000", "--calibrate", "--calibrate-time", "10m")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), "measuring a node") {
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // to the end
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitInterrupted {
		t.Fatalf("got %v, want exit code %d", err, cli.ExitInterrupted)
	}
	for _, want := range []string{
		"over-admission", "measured on this machine: memstore with 1000 keys",
		"\nInterrupted: constants that are not measured on this machine are of two cores",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("got %s, want %q", stdout.String(), want)
		}
	}
}
