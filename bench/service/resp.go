package service

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
	"github.com/headgate/headgate/server/service/resp"
	"github.com/redis/rueidis"
)

func respScenarios() []harness.Scenario {
	return []harness.Scenario{
		{Name: "resp-pipelined", Seconds: 150, Run: runRESPPipelined},
		{Name: "resp-single", Seconds: 90, Run: runRESPSingle},
		{Name: "resp-idle", Seconds: 40, Run: runRESPIdle},
	}
}

func respServers() map[string]serviceServer {
	return map[string]serviceServer{"resp": serveRESP}
}

// serveRESP serves decisions like the headgate program.
func serveRESP(l net.Listener, _ string) (func() error, error) {
	store, e, err := eachUser(respRate)
	if err != nil {
		return nil, err
	}
	s, err := resp.New(resp.Config{
		Engine: e, Store: store, Bind: func(limit headgate.Limit) (resp.Bound, error) { return store.Prepare(limit, headgate.Open) },
	})
	if err != nil {
		return nil, err
	}
	return serveDecisions(l, s, store), nil
}

// respRate is the limit of a key in decisions per second. It is never reached, so all requests take units.
const respRate = 1000

// respKeys is the number of keys.
const respKeys = 100_000

// openRedisServer starts a Redis server without persistence.
func openRedisServer(ctx context.Context, s *site.Site) (site.RunningServer, error) {
	path, err := site.Program("redis-server")
	if err != nil {
		return site.RunningServer{}, err
	}
	return s.StartServer(ctx, func(address string) (*exec.Cmd, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"), nil
	})
}

// A respLoad has the settings of redis-benchmark.
type respLoad struct {
	connections, pipeline, requests int
}

// ask returns a function that measures a contestant with redis-benchmark.
func (l respLoad) ask(command ...string) func(context.Context, *site.Site, site.RunningServer) (loadResult, error) {
	return func(ctx context.Context, s *site.Site, at site.RunningServer) (loadResult, error) {
		return redisBenchmark(ctx, s, at, l, command)
	}
}

// redisBenchmark runs redis-benchmark on the load's core.
func redisBenchmark(
	ctx context.Context, s *site.Site, at site.RunningServer, l respLoad, command []string,
) (a loadResult, err error) {
	path, err := site.Program("redis-benchmark")
	if err != nil {
		return a, err
	}
	host, port, err := net.SplitHostPort(at.Address)
	if err != nil {
		return a, err
	}
	n := l.requests
	if s.Bench.Results.Quick {
		n = max(1000, l.pipeline*l.connections)
	}
	args := []string{
		"-h", host, "-p", port, "-c", strconv.Itoa(l.connections), "-P", strconv.Itoa(l.pipeline), "-n", strconv.Itoa(n),
		"-r", strconv.Itoa(respKeys), "--csv",
	}
	p, err := site.StartProcess(s.LoadCore, exec.Command(path, append(args, command...)...))
	if err != nil {
		return a, err
	}
	defer p.Stop()
	if err := p.Finish(ctx, 2*time.Minute); err != nil {
		return a, fmt.Errorf("redis-benchmark: %w", err)
	}
	return readRedisBenchmark(p.Said.String(), int64(n))
}

// readRedisBenchmark reads the output of redis-benchmark --csv for n requests: a line of names and a line of values.
func readRedisBenchmark(said string, n int64) (a loadResult, err error) {
	_, table, ok := strings.Cut(said, `"test",`)
	if !ok || strings.Contains(said, "rror") { // it goes on after an error, and says so
		return a, fmt.Errorf("redis-benchmark says %.300q, want a table", said)
	}
	r := csv.NewReader(strings.NewReader(`"test",` + table))
	names, err := r.Read()
	if err != nil {
		return a, fmt.Errorf("redis-benchmark: %w", err)
	}
	values, err := r.Read()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("no numbers behind %q", names)
		}
		return a, fmt.Errorf("redis-benchmark: %w", err)
	}
	figure := func(name string) float64 {
		i := slices.Index(names, name)
		if i < 0 {
			err = fmt.Errorf("redis-benchmark tells no %s", name)
			return 0
		}
		var value float64
		if value, err = strconv.ParseFloat(values[i], 64); err != nil {
			err = fmt.Errorf("redis-benchmark: %w", err)
		}
		return value
	}
	rate, p50, p99 := figure("rps"), figure("p50_latency_ms"), figure("p99_latency_ms")
	if err != nil || rate <= 0 {
		return a, fmt.Errorf("redis-benchmark says %.300q: %w", said, err)
	}
	milliseconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	return loadResult{
		Ops: n, Took: time.Duration(float64(n) / rate * float64(time.Second)), P50: milliseconds(p50),
		P99: milliseconds(p99),
	}, nil
}

// gcraScript is CL.THROTTLE as a usual script for Redis. It stores the theoretical arrival time of each key, in
// microseconds.
const gcraScript = `
local limit = ARGV[1] + 1
local interval = ARGV[3] * 1000000 / ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local before = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local after = before + interval
local wait = after - interval * limit - now
if wait > 0 then
  return {1, limit, math.floor(limit - (before - now) / interval), math.ceil(wait / 1000000), math.ceil((before - now) / 1000000)}
end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000))
return {0, limit, math.floor(limit - (after - now) / interval), -1, math.ceil((after - now) / 1000000)}
`

// evalGCRA requests decisions from a Redis server by gcraScript.
func evalGCRA(l respLoad) func(context.Context, *site.Site, site.RunningServer) (loadResult, error) {
	return func(ctx context.Context, s *site.Site, at site.RunningServer) (loadResult, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{at.Address}, DisableCache: true})
		if err != nil {
			return loadResult{}, err
		}
		sha, err := client.Do(ctx, client.B().ScriptLoad().Script(gcraScript).Build()).ToString()
		client.Close()
		if err != nil {
			return loadResult{}, fmt.Errorf("load script: %w", err)
		}
		return redisBenchmark(ctx, s, at, l, append([]string{"EVALSHA", sha, "1", respKey}, respLimit...))
	}
}

// respKey is a random key, and respLimit has the arguments after it.
const respKey = "key:__rand_int__"

var (
	respLimit    = []string{strconv.Itoa(respRate), strconv.Itoa(respRate), "1"}
	respThrottle = append([]string{"CL.THROTTLE", respKey}, respLimit...)
	// respLargeBurst has a large burst, and respSlowRefill one that takes 69 days to refill: its state does not fit the word
	// of a key in memstore.
	respLargeBurst = []string{"CL.THROTTLE", respKey, "100000", strconv.Itoa(respRate), "1"}
	respSlowRefill = []string{"CL.THROTTLE", respKey, "100000", "1", "60"}
)

func runRESPPipelined(ctx context.Context, b *harness.Bench) error {
	l := respLoad{connections: 50, pipeline: 16, requests: 2_000_000}
	few := l
	few.requests = 300_000
	return runService(ctx, b, harness.ServiceTable{
		ID:    "resp-pipelined",
		Title: "RESP, 50 connections, pipelines of 16, 100 k keys",
	}, []serviceContender{
		{
			name: "headgate", title: "**headgate**, CL.THROTTLE", role: harness.Ours, server: "headgate",
			open: openServer("resp", ""), run: l.ask(respThrottle...),
		},
		{
			name: "headgate-burst", title: "headgate, CL.THROTTLE, burst of 100,000", role: harness.Ours, server: "headgate-burst",
			open: openServer("resp", ""), run: l.ask(respLargeBurst...),
		},
		{
			name: "headgate-refill", title: "headgate, CL.THROTTLE, burst of 100,000 in 69 days", role: harness.Ours,
			server: "headgate-refill", open: openServer("resp", ""), run: l.ask(respSlowRefill...),
		},
		{
			name: "headgate-take", title: "headgate, HG.TAKE by a rule", role: harness.Ours, server: "headgate",
			open: openServer("resp", ""), run: l.ask("HG.TAKE", "each-user", respKey),
		},
		{
			name: "incr", title: "redis-server, INCR", role: harness.Floor, server: "redis", open: openRedisServer,
			run: l.ask("INCR", respKey),
		},
		{
			name: "evalsha", title: "redis-server, EVALSHA of GCRA", role: harness.Peer, server: "redis", open: openRedisServer,
			run: evalGCRA(few),
		},
	})
}

func runRESPSingle(ctx context.Context, b *harness.Bench) error {
	l := respLoad{connections: 50, pipeline: 1, requests: 200_000}
	return runService(ctx, b,
		harness.ServiceTable{
			ID:    "resp-single",
			Title: "RESP, 50 connections, one command at a time, 100 k keys",
		}, []serviceContender{
			{
				name: "headgate", title: "**headgate**, CL.THROTTLE", role: harness.Ours, server: "headgate",
				open: openServer("resp", ""), run: l.ask(respThrottle...),
			},
			{
				name: "incr", title: "redis-server, INCR", role: harness.Floor, server: "redis", open: openRedisServer,
				run: l.ask("INCR", respKey),
			},
			{
				name: "evalsha", title: "redis-server, EVALSHA of GCRA", role: harness.Peer, server: "redis", open: openRedisServer,
				run: evalGCRA(l),
			},
		})
}

func runRESPIdle(ctx context.Context, b *harness.Bench) error {
	l := respLoad{connections: 1, pipeline: 1, requests: 20_000}
	return runService(ctx, b, harness.ServiceTable{
		ID: "resp-idle", Title: "RESP, one call at a time on an idle server",
		Timed: true,
	}, []serviceContender{
		{
			name: "headgate", title: "**headgate**, CL.THROTTLE", role: harness.Ours, server: "headgate",
			open: openServer("resp", ""), run: l.ask(respThrottle...),
		},
		{
			name: "headgate-take", title: "headgate, HG.TAKE by a rule", role: harness.Ours, server: "headgate",
			open: openServer("resp", ""), run: l.ask("HG.TAKE", "each-user", respKey),
		},
		{
			name: "ping", title: "redis-server, PING", role: harness.Floor, server: "redis", open: openRedisServer,
			run: l.ask("PING"),
		},
	})
}

func respBars(r *harness.Results) []harness.Bar {
	many, one := r.ServiceNamed("resp-pipelined"), r.ServiceNamed("resp-single")
	const pipelined, single = "RESP, pipelines of 16", "RESP, one command at a time"
	return []harness.Bar{
		many.RatesAbove("headgate", "incr", pipelined, 1, ""),
		many.RatesAbove("headgate", "incr", pipelined, 1.15, " (to reach for)"),
		many.RatesAboveByCPU("headgate", "incr", pipelined, 1.5, " (to reach for)"),
		many.RatesAbove("headgate", "evalsha", pipelined, 5, ""),
		many.RatesAbove("headgate-take", "evalsha", "RESP, decisions by a rule, pipelines of 16", 5, ""),
		one.RatesAbove("headgate", "incr", single, 0.9, ""),
		one.RatesAbove("headgate", "incr", single, 1.05, " (to reach for)"),
		r.ServiceNamed("resp-idle").TailBelow("headgate", "ping", "RESP, p99 of one call on an idle server", 1.3),
		r.ServiceNamed("resp-idle").TailBelow("headgate-take", "ping",
			"RESP, p99 of one decision by a rule on an idle server", 1.5),
	}
}

func respMethod(b *strings.Builder, _ *harness.Results) {
	fmt.Fprintf(b, `- RESP: redis-benchmark asks, on %s keys by chance; every key may have %d decisions a second, which none meets, so that each takes
  something. redis-server keeps nothing on disk. Its INCR adds one to a key and decides nothing; EVALSHA runs a script of some ten lines that
  decides as CL.THROTTLE does, with a GET, a SET and TIME. On the idle server one connection asks, and the next call is sent when the last
  was answered.
`, harness.HumanCount(respKeys), respRate)
}

func respVersions(ctx context.Context) []harness.ModuleVersion {
	return []harness.ModuleVersion{{Module: "redis-server", Version: site.ProgramVersion(ctx, "redis-server",
		"--version")}}
}
