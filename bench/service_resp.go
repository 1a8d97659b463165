package main

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

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/service/resp"
)

func respScenarios() []scenario {
	return []scenario{
		{"resp-pipelined", 150, runRESPPipelined},
		{"resp-single", 90, runRESPSingle},
		{"resp-idle", 40, runRESPIdle},
	}
}

func respServers() map[string]serviceServer {
	return map[string]serviceServer{"resp": serveRESP}
}

// serveRESP serves decisions as the program does.
func serveRESP(l net.Listener, _ string) (func() error, error) {
	store, e, err := eachUser(respRate)
	if err != nil {
		return nil, err
	}
	s, err := resp.New(resp.Config{
		Engine: e, Store: store, Bind: func(limit headgate.Limit) (resp.Bound, error) { return store.Bind(limit) },
	})
	if err != nil {
		return nil, err
	}
	return serveDecisions(l, s, store), nil
}

// respRate is how many decisions a second a key has: more than it is asked for, so that all of them take something.
const respRate = 1000

// respKeys is how many keys there are.
const respKeys = 100_000

// openRedisServer starts a Redis that keeps nothing on disk.
func openRedisServer(ctx context.Context, s *site) (place, error) {
	path, err := program("redis-server")
	if err != nil {
		return place{}, err
	}
	return s.startServer(ctx, func(address string) (*exec.Cmd, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"), nil
	})
}

// A respLoad is what redis-benchmark sends.
type respLoad struct {
	connections, pipeline, requests int
}

// ask returns how a contestant is asked by redis-benchmark.
func (l respLoad) ask(command ...string) func(context.Context, *site, place) (asking, error) {
	return func(ctx context.Context, s *site, at place) (asking, error) {
		return s.redisBenchmark(ctx, at, l, command)
	}
}

// redisBenchmark has a server asked on the load's core.
func (s *site) redisBenchmark(ctx context.Context, at place, l respLoad, command []string) (a asking, err error) {
	path, err := program("redis-benchmark")
	if err != nil {
		return a, err
	}
	host, port, err := net.SplitHostPort(at.address)
	if err != nil {
		return a, err
	}
	n := l.requests
	if s.bench.results.Quick {
		n = max(1000, l.pipeline*l.connections)
	}
	args := []string{
		"-h", host, "-p", port, "-c", strconv.Itoa(l.connections), "-P", strconv.Itoa(l.pipeline), "-n", strconv.Itoa(n),
		"-r", strconv.Itoa(respKeys), "--csv",
	}
	p, err := startProcess(s.loadCore, exec.Command(path, append(args, command...)...))
	if err != nil {
		return a, err
	}
	defer p.stop()
	if err := p.finish(ctx, 2*time.Minute); err != nil {
		return a, fmt.Errorf("redis-benchmark: %w", err)
	}
	return readRedisBenchmark(p.said.String(), int64(n))
}

// readRedisBenchmark reads what redis-benchmark --csv says about n requests: a line of names and one of numbers.
func readRedisBenchmark(said string, n int64) (a asking, err error) {
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
	return asking{Ops: n, Took: time.Duration(float64(n) / rate * float64(time.Second)), P50: milliseconds(p50), P99: milliseconds(p99)}, nil
}

// gcraScript is CL.THROTTLE as one writes it for Redis: the theoretical arrival time of each key, in microseconds.
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

// evalGCRA asks a Redis for decisions by gcraScript.
func evalGCRA(l respLoad) func(context.Context, *site, place) (asking, error) {
	return func(ctx context.Context, s *site, at place) (asking, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{at.address}, DisableCache: true})
		if err != nil {
			return asking{}, err
		}
		sha, err := client.Do(ctx, client.B().ScriptLoad().Script(gcraScript).Build()).ToString()
		client.Close()
		if err != nil {
			return asking{}, fmt.Errorf("load script: %w", err)
		}
		return s.redisBenchmark(ctx, at, l, append([]string{"EVALSHA", sha, "1", respKey}, respLimit...))
	}
}

// respKey is a key by chance, and respLimit what stands behind it.
const respKey = "key:__rand_int__"

var (
	respLimit    = []string{strconv.Itoa(respRate), strconv.Itoa(respRate), "1"}
	respThrottle = append([]string{"CL.THROTTLE", respKey}, respLimit...)
)

func runRESPPipelined(ctx context.Context, b *bench) error {
	l := respLoad{connections: 50, pipeline: 16, requests: 2_000_000}
	few := l
	few.requests = 300_000
	return runService(ctx, b, serviceTable{ID: "resp-pipelined", Title: "RESP, 50 connections, pipelines of 16, 100 k keys"}, []contestant{
		{name: "headgate", title: "**headgate**, CL.THROTTLE", role: ours, server: "headgate", open: openServer("resp", ""), run: l.ask(respThrottle...)},
		{name: "headgate-take", title: "headgate, HG.TAKE by a rule", role: ours, server: "headgate", open: openServer("resp", ""), run: l.ask("HG.TAKE", "each-user", respKey)},
		{name: "incr", title: "redis-server, INCR", role: floor, server: "redis", open: openRedisServer, run: l.ask("INCR", respKey)},
		{name: "evalsha", title: "redis-server, EVALSHA of GCRA", role: peer, server: "redis", open: openRedisServer, run: evalGCRA(few)},
	})
}

func runRESPSingle(ctx context.Context, b *bench) error {
	l := respLoad{connections: 50, pipeline: 1, requests: 200_000}
	return runService(ctx, b, serviceTable{ID: "resp-single", Title: "RESP, 50 connections, one command at a time, 100 k keys"}, []contestant{
		{name: "headgate", title: "**headgate**, CL.THROTTLE", role: ours, server: "headgate", open: openServer("resp", ""), run: l.ask(respThrottle...)},
		{name: "incr", title: "redis-server, INCR", role: floor, server: "redis", open: openRedisServer, run: l.ask("INCR", respKey)},
		{name: "evalsha", title: "redis-server, EVALSHA of GCRA", role: peer, server: "redis", open: openRedisServer, run: evalGCRA(l)},
	})
}

func runRESPIdle(ctx context.Context, b *bench) error {
	l := respLoad{connections: 1, pipeline: 1, requests: 20_000}
	return runService(ctx, b, serviceTable{ID: "resp-idle", Title: "RESP, one call at a time on an idle server", Timed: true}, []contestant{
		{name: "headgate", title: "**headgate**, CL.THROTTLE", role: ours, server: "headgate", open: openServer("resp", ""), run: l.ask(respThrottle...)},
		{name: "headgate-take", title: "headgate, HG.TAKE by a rule", role: ours, server: "headgate", open: openServer("resp", ""), run: l.ask("HG.TAKE", "each-user", respKey)},
		{name: "ping", title: "redis-server, PING", role: floor, server: "redis", open: openRedisServer, run: l.ask("PING")},
	})
}

func respBars(r *results) []bar {
	many, one := r.service("resp-pipelined"), r.service("resp-single")
	const pipelined, single = "RESP, pipelines of 16", "RESP, one command at a time"
	return []bar{
		many.ratesAbove("headgate", "incr", pipelined, 1, ""),
		many.ratesAbove("headgate", "incr", pipelined, 1.15, " (to reach for)"),
		many.ratesAboveByCPU("headgate", "incr", pipelined, 1.5, " (to reach for)"),
		many.ratesAbove("headgate", "evalsha", pipelined, 5, ""),
		many.ratesAbove("headgate-take", "evalsha", "RESP, decisions by a rule, pipelines of 16", 5, ""),
		one.ratesAbove("headgate", "incr", single, 0.9, ""),
		one.ratesAbove("headgate", "incr", single, 1.05, " (to reach for)"),
		r.service("resp-idle").tailBelow("headgate", "ping", "RESP, p99 of one call on an idle server", 1.3),
		r.service("resp-idle").tailBelow("headgate-take", "ping", "RESP, p99 of one decision by a rule on an idle server", 1.5),
	}
}

func respMethod(b *strings.Builder, _ *results) {
	fmt.Fprintf(b, `- RESP: redis-benchmark asks, on %s keys by chance; every key may have %d decisions a second, which none meets, so that each takes
  something. redis-server keeps nothing on disk. Its INCR adds one to a key and decides nothing; EVALSHA runs a script of some ten lines that
  decides as CL.THROTTLE does, with a GET, a SET and TIME. On the idle server one connection asks, and the next call is sent when the last
  was answered.
`, humanCount(respKeys), respRate)
}

func respVersions(ctx context.Context) []moduleVersion {
	return []moduleVersion{{Module: "redis-server", Version: programVersion(ctx, "redis-server", "--version")}}
}
