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
	"slices"
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

const regionRules = "rules:\n  - { id: per-key, key: api_key, limits: 100/s, scope: global }\n"

// A syncLoad is a load of nodes that share limits.
type syncLoad struct{ nodes, clients, rate int }

// plan returns the plan that the command prints for a load.
func (l syncLoad) plan(t *testing.T, flags ...string) *plan.Plan {
	t.Helper()
	rate := strconv.Itoa(l.rate)
	args := []string{
		"plan", "--dau", strconv.Itoa(l.clients), "--rps", rate, "--peak", rate, "--nodes", strconv.Itoa(l.nodes), "-o", "json",
	}
	code, stdout, stderr := run(t, append(args, flags...)...)
	var p plan.Plan
	if err := json.Unmarshal([]byte(stdout), &p); code != 0 || err != nil {
		t.Fatalf("got exit code %d, %v\n%s", code, err, stderr)
	}
	return &p
}

// lineOf returns the value of a line of a plan.
func lineOf(t *testing.T, p *plan.Plan, section, name string) float64 {
	t.Helper()
	for _, line := range p.Lines {
		if line.Section == section && line.Name == name {
			return line.Value
		}
	}
	t.Fatalf("the plan has no line %q in %q", name, section)
	return math.NaN()
}

// startTarget starts a node that counts in a Redis, and returns it as the target of a load.
func startTarget(t *testing.T, server *redistest.Server, rules string, args ...string) target.Target {
	t.Helper()
	args = slices.Concat(countingIn(t, server), []string{"--gateway-addr", "off", "--rules", rulesFile(t, rules)}, args)
	node := serve(t, args...)
	to, err := target.Open(t.Context(), target.Options{Address: "grpc://" + node.grpc, Rule: "per-key"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	return to
}

// Real nodes and a real Redis need as many calls and bytes as a plan of mode async says. Nodes that do not get a core in
// time make fewer exchanges, with more keys in each, so this is a test for a machine without other load.
func TestSoakPlanOfAsyncIsWhatNodesNeed(t *testing.T) {
	needSoak(t)
	for _, load := range []syncLoad{{1, 10_000, 1000}, {1, 5, 750}, {3, 500, 1500}} {
		t.Run(fmt.Sprintf("%d nodes, %d clients, %d per second", load.nodes, load.clients, load.rate), func(t *testing.T) {
			server := redistest.Standalone(t, redistest.Options{})
			var targets []target.Target
			for range load.nodes {
				targets = append(targets, startTarget(t, server, asyncRules))
			}
			p := load.plan(t, "--mode", "async")
			load.compare(t, p, "redis", server, targets)
			checkNoteMemory(t, server, p)
		})
	}
}

// Regions that share a limit send as much to the global store as a plan says.
func TestSoakPlanOfRegionsIsWhatNodesNeed(t *testing.T) {
	needSoak(t)
	global := redistest.Standalone(t, redistest.Options{})
	secret := newFile(t, "key-secret", "a secret that all regions have, 32 bytes\n")
	load := syncLoad{nodes: 2, clients: 200, rate: 400}
	var targets []target.Target
	for _, name := range []string{"eu", "us"} {
		server := redistest.Standalone(t, redistest.Options{})
		targets = append(targets, startTarget(t, server, regionRules, "--region", name, "--global-store", global.URL(),
			"--key-secret-file", secret))
	}
	load.compare(t, load.plan(t, "--regions", "2"), "global store", global, targets)
}

// outputOf runs the command in a process of its own and decodes its output.
func outputOf(t *testing.T, to any, args ...string) {
	t.Helper()
	stdout, err := exec.CommandContext(t.Context(), "headgate", args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("got %v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	if err := json.Unmarshal(stdout, to); err != nil {
		t.Fatal(err)
	}
}

// With a Redis, a calibration also measures a node that makes its decisions there.
func TestCalibrationMeasuresNodesWithRedis(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	var p plan.Plan
	outputOf(t, &p, "plan", "--calibrate", "--calibrate-time", "100ms", "--redis", server.URL(), "--limits", "2", "-o", "json")
	for _, name := range []string{
		"decisions on a node", "work of a further limit on a node",
		"decisions of a node in Redis", "work of a further limit in Redis", "calls per Redis shard",
	} {
		i := slices.IndexFunc(p.Constants, func(c plan.Constant) bool { return c.Name == name })
		if i < 0 || !strings.HasPrefix(p.Constants[i].Source, "measured on this machine: ") {
			t.Errorf("%s: got %+v, want it measured", name, p.Constants)
		}
	}
	if keys, err := server.Do("KEYS", "headgate-plan-node{*"); err != nil || len(keys.([]any)) == 0 {
		t.Errorf("got keys %v, error %v, want counters of the node", keys, err)
	}
}

// A calibrated plan has as many decisions per node as bench load measures, in memory and in Redis.
func TestSoakPlanOfNodesIsWhatBenchLoadMeasures(t *testing.T) {
	needSoak(t)
	for name, tt := range map[string]struct{ mode, line, consistency string }{
		"memory": {"async", "decisions on a node", "local"},
		"exact":  {"exact", "decisions of a node in Redis", "exact"},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Standalone(t, redistest.Options{})
			rules := fmt.Sprintf("rules:\n  - { id: per-key, key: api_key, limits: 1000/s, consistency: %s }\n", tt.consistency)
			args := slices.Concat(countingIn(t, server), []string{"--gateway-addr", "off", "--rules", rulesFile(t, rules)})
			if tt.consistency == "local" {
				args = args[4:] // without --store and its settings
			}
			node := serve(t, args...)
			var planned, measured float64
			for range 3 { // other programs on the machine can delay either
				var p plan.Plan
				outputOf(t, &p, "plan", "--mode", tt.mode, "--calibrate", "--redis", server.URL(), "-o", "json")
				planned = lineOf(t, &p, "nodes", tt.line)
				var report struct{ Targets []loadgen.Report }
				outputOf(t, &report, "bench", "load", "--rate", "max", "--duration", "3s", "--rule", "per-key",
					"--target", "grpc://"+node.grpc, "-o", "json")
				measured = report.Targets[0].Achieved
				t.Logf("planned %.0f/s, measured %.0f/s", planned, measured)
				if math.Abs(planned/measured-1) <= 0.25 {
					return
				}
			}
			t.Errorf("planned %.0f/s, and bench load measures %.0f/s, want at most 25 %% more or less", planned, measured)
		})
	}
}

// compare compares the calls and bytes of a Redis with those of a section of a plan.
func (l syncLoad) compare(
	t *testing.T, p *plan.Plan, section string, server *redistest.Server, targets []target.Target,
) {
	t.Helper()
	calls, bytes := lineOf(t, p, section, "calls"), lineOf(t, p, section, "bytes to and from it")
	var report string
	for range 5 { // other programs on the machine can delay exchanges
		m := l.measure(t, server, targets)
		if l.inEveryExchange() { // a busy machine makes fewer exchanges
			late := min(m.exchanges/lineOf(t, p, section, "exchanges of a node"), 1)
			m.calls, m.bytes = m.calls/late, m.bytes/late
		}
		report = fmt.Sprintf("%.0f calls/s and %.0f bytes/s, planned %.0f and %.0f", m.calls, m.bytes, calls, bytes)
		t.Logf("got %s; %.1f µs per call, planned %.1f", report, m.micros, lineOf(t, p, section, "work of a call"))
		if math.Abs(m.calls/calls-1) <= 0.25 && math.Abs(m.bytes/bytes-1) <= 0.25 {
			return
		}
	}
	t.Errorf("got %s; want at most 25 %% more or less", report)
}

// inEveryExchange reports whether one node uses all keys between any two of its exchanges.
func (l syncLoad) inEveryExchange() bool { return l.nodes == 1 && l.rate/l.clients > 100 }

// A syncMeasurement has the calls and bytes per second of a Redis, and the mean time of a call.
type syncMeasurement struct {
	calls, bytes, micros float64
	exchanges            float64 // per second, of the group of keys with the most of them
}

// exchangesOf returns the number of exchanges of the group of keys with the most of them.
func exchangesOf(t *testing.T, server *redistest.Server) float64 {
	t.Helper()
	keys, err := server.Do("KEYS", "hg:*{*}")
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, key := range keys.([]any) {
		version, err := server.Do("HGET", key.(string), "v")
		if err != nil {
			t.Fatal(err)
		}
		n, _ := strconv.Atoi(fmt.Sprint(version)) // other keys have none
		most = max(most, n)
	}
	return float64(most)
}

// measure sends a load to nodes and measures their Redis meanwhile.
func (l syncLoad) measure(t *testing.T, server *redistest.Server, targets []target.Target) syncMeasurement {
	t.Helper()
	const warmUp, duration = 2 * time.Second, 4 * time.Second
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
	exchanges := exchangesOf(t, server)
	server.ResetStats()
	began := time.Now()
	time.Sleep(duration)
	exchanges = exchangesOf(t, server) - exchanges
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
		micros: field("usec") / field("calls"), exchanges: exchanges / took,
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
	want := lineOf(t, p, "redis", "memory of notes") / lineOf(t, p, "redis", "keys with notes")
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
		"\nInterrupted: constants that were not measured on this machine are from two cores",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("got %s, want %q", stdout.String(), want)
		}
	}
}
