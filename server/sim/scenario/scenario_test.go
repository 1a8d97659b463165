package scenario_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/sim/scenario"
)

const valid = `
duration: 1m
limits: [10/s]
traffic: [{ rate: 1.5k }]
`

func TestDefaultsAreSet(t *testing.T) {
	s, err := scenario.Parse("dir/border.yaml", []byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "border" || s.Nodes != 1 || s.Seed != 1 || s.Modes[0] != rules.Local || s.Traffic[0].Rate != 1500 ||
		s.Traffic[0].Until != time.Minute || s.Redis.Shards != 1 {
		t.Errorf("got %+v, want the defaults", s)
	}
}

func TestBadInputIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{
			"typo", "duration: 1m\nlimits: [10/s]\nnods: 3\ntraffic: [{ rate: 1 }]",
			"x.yaml:3:1: nods: unknown field: want nodes",
		},
		{"limit", "duration: 1m\nlimits: [10]\ntraffic: [{ rate: 1 }]", "x.yaml:2:10: limits[0]"},
		{"mode", "duration: 1m\nlimits: [10/s]\nmodes: [exakt]\ntraffic: [{ rate: 1 }]", "x.yaml:3:9: modes[0]"},
		{"no traffic", "duration: 1m\nlimits: [10/s]", "no traffic: want a list of sources"},
		{
			"no rate", "duration: 1m\nlimits: [10/s]\ntraffic: [{ clients: 5 }]",
			"traffic[0].rate: 0: want requests per second",
		},
		{"negative", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: -5 }]", `"-5": want a number`},
		{
			"zipf", "duration: 1m\nlimits: [10/s]\ntraffic:\n  - { rate: 5, zipf: 0.9 }",
			"x.yaml:4:22: traffic[0].zipf: 0.9: want an exponent above 1",
		},
		{
			"period without diurnal", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5, period: 10s }]",
			"x.yaml:3:30: traffic[0].period: 10s: want pattern: diurnal",
		},
		{
			"two waits",
			"duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5, retry: { wait: 1s, honour_retry_after: true } }]",
			"traffic[0].retry.wait: 1s: want one of wait and honour_retry_after",
		},
		{
			"a fault of Redis without Redis",
			"duration: 1m\nlimits: [10/s]\nmodes: [local]\ntraffic: [{ rate: 5 }]\nfaults: [{ kind: failover, at: 1s }]",
			"faults[0].kind: failover: want a mode that uses Redis",
		},
		{"cost", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5, cost: 11 }]", "at most 10"},
		{
			"mode cannot", "duration: 1m\nlimits: [10/m sliding-log]\nmodes: [lease]\ntraffic: [{ rate: 5 }]",
			"lease cannot count sliding-log",
		},
		{"concurrency", "duration: 1m\nlimits: [10 concurrent]\ntraffic: [{ rate: 5 }]", "want limits of rates"},
		{
			"fault", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5 }]\nfaults: [{ kind: crush, at: 1s }]",
			`x.yaml:4:18: faults[0].kind: unknown word "crush": want crash, join`,
		},
		{
			"fault node", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5 }]\nfaults: [{ kind: crash, at: 1s, nodes: [4] }]",
			"4: want 0 to 0",
		},
		{
			"fault field", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5 }]\nfaults: [{ kind: crash, at: 1s, loss: 5 }]",
			"want kind: lossy",
		},
		{
			"late fault", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5 }]\nfaults: [{ kind: crash, at: 2m }]",
			"want a time before the end",
		},
		{"no log", "duration: 1m\nlimits: [10/s]\ntraffic: [{ log: none.log }]", "x.yaml:3:18: traffic[0].log: none.log: want an access log"},
		{
			"log and rate", "duration: 1m\nlimits: [10/s]\ntraffic: [{ log: scenario_test.go, rate: 5 }]",
			"a log beside generated traffic",
		},
		{"log key alone", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5, log_key: user }]", "without a log: want a log"},
		{"no nodes", "duration: 1m\nnodes: 0\nlimits: [10/s]\ntraffic: [{ rate: 5 }]", "x.yaml:2:8: nodes: 0: want 1 or more"},
		{"no clients", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5, clients: 0 }]", "x.yaml:3:31: traffic[0].clients: 0"},
		{
			"log key", "duration: 1m\nlimits: [10/s]\ntraffic: [{ log: scenario_test.go, log_key: usr }]",
			"x.yaml:3:45: traffic[0].log_key: usr: want an attribute",
		},
		{"two units", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5kM }]", `x.yaml:3:19: traffic[0].rate: "5kM": want a number`},
		{"percent", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5% }]", `"5%": want a number`},
		{"time", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5, from: s }]", `traffic[0].from: "s": want a time`},
		{
			"too fast", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 2000M, pattern: constant }]",
			"x.yaml:3:19: traffic[0].rate: 2e+09: want requests per second, above 0 and up to 100M",
		},
		{
			"too high a peak", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 1, pattern: diurnal, peak: 1e300 }]",
			"traffic[0].peak: 1e+300: want a peak of at least the rate, up to 100M",
		},
		{
			"list of clients",
			"duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 1, clients: 20000000, client_on: 1s, client_off: 1s }]",
			"traffic[0].clients: 20000000: want up to 10000000 with client_on",
		},
		{
			"late source", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 1, from: 2m, until: 3m }]",
			"x.yaml:3:28: traffic[0].from: 2m0s: want a time before the end",
		},
		{
			"judge", "duration: 1m\nlimits: [10/s]\njudge_by: concurrency\ntraffic: [{ rate: 1 }]",
			"x.yaml:3:11: judge_by: concurrency: want an algorithm that can count 10/s",
		},
		{
			"no wait", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 1, retry: { wait: 0 } }]",
			"x.yaml:3:37: traffic[0].retry.wait: 0: want a time above 0",
		},
		{
			"no time of a fault", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 1 }]\nfaults: [{ kind: crash, at: 1s, for: 0s }]",
			"x.yaml:4:38: faults[0].for: 0s: want a time above 0",
		},
		{
			"large limit", "duration: 1m\nlimits: [10/s, 100000/s sliding-window]\ntraffic: [{ rate: 5 }]",
			"x.yaml:2:16: limits[1]: 100000/s sliding-window: want at most 65536 units, which the exact log that judges " +
				"sliding-window can count, or judge_by: sliding-window",
		},
		{
			"large limit of an algorithm", "duration: 1m\nlimits: [100000/s]\nalgorithms: [token-bucket, sliding-buckets]\n" +
				"traffic: [{ rate: 5 }]", "x.yaml:2:10: limits[0]: 100000/s: want at most 65536 units, which",
		},
		{
			"zipf of one client", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5, zipf: 1.1 }]",
			"x.yaml:3:28: traffic[0].zipf: 1.1: want clients",
		},
		{
			"until after the end", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5, until: 2m }]",
			"x.yaml:3:29: traffic[0].until: 2m0s: want a time up to the end, 1m0s",
		},
		{
			"algorithm twice", "duration: 1m\nlimits: [10/s]\nalgorithms: [gcra, token-bucket, gcra]\ntraffic: [{ rate: 5 }]",
			"x.yaml:3:34: algorithms[2]: gcra: want each algorithm once",
		},
		{
			"two documents", "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5 }]\n---\nduration: 1m\n",
			"x.yaml:5:1: a second document: want one document\n",
		},
		{"no YAML", "duration: [", "x.yaml:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := scenario.Parse("x.yaml", []byte(c.text))
			if err == nil || !strings.Contains(err.Error()+"\n", c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestMissingDurationIsTheOnlyProblem(t *testing.T) {
	t.Parallel()
	const text = "limits: [10/s]\ntraffic: [{ rate: 5, from: 1s, until: 2s }, { rate: 5 }]\nfaults: [{ kind: crash, at: 1s }]"
	_, err := scenario.Parse("x.yaml", []byte(text))
	var problems *source.Error
	if !errors.As(err, &problems) || len(problems.Problems) != 1 || problems.Problems[0].Path != "duration" {
		t.Errorf("got %v, want only that the duration is missing", err)
	}
}

func TestShippedScenariosAreValid(t *testing.T) {
	files, err := filepath.Glob("../../../examples/scenarios/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %v, %v, want the shipped scenarios", files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scenario.Parse(name, data); err != nil {
			t.Errorf("%v", err)
		}
	}
}
