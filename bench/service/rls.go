package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
	"google.golang.org/grpc"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/service/envoyrls"
	"github.com/headgate/headgate/server/service/grpcapi"
)

func rlsScenarios() []harness.Scenario {
	return []harness.Scenario{
		{Name: "rls-unary", Seconds: 90, Run: runRLSUnary},
		{Name: "rls-redis", Seconds: 120, Run: runRLSRedis},
		{Name: "rls-idle", Seconds: 40, Run: runRLSIdle},
	}
}

func rlsServers() map[string]serviceServer {
	return map[string]serviceServer{
		"rls":                serveRLS,
		"rls-floor":          serveRLSFloor,
		"rls-peer":           serveRLSPeer,
		"rls-peer-pipelined": serveRLSPeerPipelined,
		"rls-load":           serveRLSLoad,
	}
}

// rlsLimits is the configuration of all contestants. The limits are never reached.
const rlsLimits = `domain: bench
descriptors:
- key: user
  rate_limit: {unit: hour, requests_per_unit: 10000}
`

// rlsDir writes the configuration to a new directory, in the given path below it.
func rlsDir(within string, below ...string) (root string, err error) {
	if root, err = os.MkdirTemp(within, "headgate-bench-"); err != nil {
		return "", err
	}
	dir := filepath.Join(append([]string{root}, below...)...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return root, os.WriteFile(filepath.Join(dir, "bench.yaml"), []byte(rlsLimits), 0o600)
}

// serveRLS serves Envoys like the headgate program. It counts in memory, or in the Redis server at target.
func serveRLS(l net.Listener, target string) (func() error, error) {
	quiet := slog.New(slog.DiscardHandler)
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	var store headgate.Limiter = memory
	ends := []func() error{memory.Close}
	if target != "" {
		redis, err := redisstore.Open(context.Background(), "redis://"+target, redisstore.Options{Logger: quiet})
		if err != nil {
			return nil, err
		}
		// The deadline is so long that no decision is made by a policy.
		g, err := guard.New(redis, guard.Options{Local: memory, Deadline: 5 * time.Second})
		if err != nil {
			return nil, err
		}
		store, ends = g, append(ends, redis.Close, g.Close)
	}
	e, err := engine.New(engine.Config{Store: store, Local: memory, Shared: target != ""})
	if err != nil {
		return nil, err
	}
	dir, err := rlsDir("")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is read once
	envoys, err := envoyrls.New(envoyrls.Config{Path: dir, Store: store, CountDenied: true, Logger: quiet})
	if err != nil {
		return nil, err
	}
	server, err := grpcapi.New(grpcapi.Config{Engine: e, Logger: quiet})
	if err != nil {
		return nil, err
	}
	server.Register(envoys.Register)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		errs := []error{server.Shutdown(ctx), <-served}
		for i := len(ends) - 1; i >= 0; i-- {
			errs = append(errs, ends[i]())
		}
		if n := envoys.Stats().Degraded; n > 0 {
			errs = append(errs, fmt.Errorf("%d descriptors were decided without the store", n))
		}
		return errors.Join(errs...)
	}, nil
}

// rlsFloor sends the same responses without making decisions.
type rlsFloor struct {
	rlspb.UnimplementedRateLimitServiceServer
}

func (rlsFloor) ShouldRateLimit(context.Context, *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	return &rlspb.RateLimitResponse{
		OverallCode: rlspb.RateLimitResponse_OK,
		Statuses: []*rlspb.RateLimitResponse_DescriptorStatus{{
			Code: rlspb.RateLimitResponse_OK, LimitRemaining: 9_999,
			CurrentLimit: &rlspb.RateLimitResponse_RateLimit{
				RequestsPerUnit: 10_000,
				Unit:            rlspb.RateLimitResponse_RateLimit_HOUR,
			},
		}},
	}, nil
}

// serveRLSFloor is a usual server with generated code.
func serveRLSFloor(l net.Listener, _ string) (func() error, error) {
	server := grpc.NewServer()
	rlspb.RegisterRateLimitServiceServer(server, rlsFloor{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return func() error {
		server.Stop()
		return <-served
	}, nil
}

func serveRLSPeer(l net.Listener, target string) (func() error, error) {
	return servePeer(l, target, nil)
}

// serveRLSPeerPipelined lets the peer collect commands for Redis, which saves work but adds latency.
func serveRLSPeerPipelined(l net.Listener, target string) (func() error, error) {
	return servePeer(l, target, map[string]string{"REDIS_PIPELINE_WINDOW": "150us", "REDIS_PIPELINE_LIMIT": "8"})
}

// servePeer runs envoyproxy/ratelimit, which opens its own port. target has the address of Redis, and a directory for
// files.
func servePeer(l net.Listener, target string, more map[string]string) (func() error, error) {
	redis, dir, _ := strings.Cut(target, " ")
	root, err := rlsDir(dir, "ratelimit", "config")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	env := map[string]string{
		"HOST": host, "PORT": "0", "DEBUG_HOST": host, "DEBUG_PORT": "0", "GRPC_HOST": host, "GRPC_PORT": port,
		"LOG_LEVEL": "error", "DISABLE_STATS": "true", "USE_STATSD": "false",
		"RUNTIME_ROOT": root, "RUNTIME_SUBDIRECTORY": "ratelimit",
		"REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": redis,
	}
	for name, value := range more {
		env[name] = value
	}
	for name, value := range env {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	r := runner.NewRunner(settings.NewSettings())
	go r.Run() // it ends with the process: to stop it, it signals itself
	for began := time.Now(); site.Reachable(address) != nil; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			return nil, fmt.Errorf("envoyproxy/ratelimit does not listen on %s", address)
		}
	}
	return func() error { return nil }, nil // its files go with the others
}

// rlsKeys is the number of users.
const rlsKeys = 100_000

// rlsRequest is a request for a user, with room for the user's six digits.
const rlsRequest = "\n\x05bench\x12\x15\n\x13\n\x04user\x12\x0buser-000000"

func runRLSUnary(ctx context.Context, b *harness.Bench) error {
	l := &rlsLoad{callers: 64}
	return runService(ctx, b,
		harness.ServiceTable{
			ID:    "rls-unary",
			Title: "Envoy's protocol, 64 callers on one connection, 100 k users",
		}, []serviceContender{
			{
				name: "headgate", title: "**headgate**", role: harness.Ours, server: "headgate", open: openServer("rls", ""),
				run: l.ask,
			},
			{
				name: "floor", title: "grpc-go, generated code, decides nothing", role: harness.Floor, server: "floor",
				open: openServer("rls-floor", ""), run: l.ask,
			},
		})
}

func runRLSIdle(ctx context.Context, b *harness.Bench) error {
	l := &rlsLoad{callers: 1}
	return runService(ctx, b,
		harness.ServiceTable{
			ID: "rls-idle", Title: "Envoy's protocol, one call at a time on an idle server",
			Timed: true,
		}, []serviceContender{
			{
				name: "headgate", title: "**headgate**", role: harness.Ours, server: "headgate", open: openServer("rls", ""),
				run: l.ask,
			},
			{
				name: "floor", title: "grpc-go, generated code, decides nothing", role: harness.Floor, server: "floor",
				open: openServer("rls-floor", ""), run: l.ask,
			},
		})
}

func runRLSRedis(ctx context.Context, b *harness.Bench) error {
	l := &rlsLoad{callers: 64}
	redis := &rlsRedis{}
	return runService(ctx, b,
		harness.ServiceTable{
			ID:    "rls-redis",
			Title: "Envoy's protocol, counted in Redis, 64 callers on one connection, 100 k users",
		}, []serviceContender{
			{
				name: "headgate", title: "**headgate**, exact", role: harness.Ours, server: "headgate", open: redis.with("rls"),
				run: l.ask,
			},
			{
				name: "peer", title: "envoyproxy/ratelimit", role: harness.Peer, server: "peer", open: redis.with("rls-peer"),
				run: l.ask,
			},
			{
				name: "peer-pipelined", title: "envoyproxy/ratelimit, REDIS_PIPELINE_WINDOW=150us", role: harness.Peer, server: "peer-pipelined",
				open: redis.with("rls-peer-pipelined"), run: l.ask,
			},
			{
				name: "floor", title: "grpc-go, generated code, decides nothing", role: harness.Floor, server: "floor",
				open: openServer("rls-floor", ""), run: l.ask,
			},
		})
}

// An rlsRedis is a Redis server that contestants share. It runs on the core of the load.
type rlsRedis struct{ address string }

// with opens a server that counts in this Redis server.
func (r *rlsRedis) with(name string) func(context.Context, *site.Site) (site.RunningServer, error) {
	return func(ctx context.Context, s *site.Site) (site.RunningServer, error) {
		if r.address == "" {
			if err := r.start(ctx, s); err != nil {
				return site.RunningServer{}, fmt.Errorf("redis-server: %w", err)
			}
		}
		target := r.address
		if name != "rls" {
			target += " " + s.Dir
		}
		return openServer(name, target)(ctx, s)
	}
}

func (r *rlsRedis) start(ctx context.Context, s *site.Site) error {
	path, err := site.Program("redis-server")
	if err != nil {
		return err
	}
	address, err := site.FreeAddress()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	p, err := s.Start(s.LoadCore, exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly",
		"no"))
	if err != nil {
		return err
	}
	r.address = address
	return p.Await(ctx, func() error { return site.Reachable(address) })
}

func rlsBars(r *harness.Results) []harness.Bar {
	const unary, redis = "Envoy's protocol, 64 callers", "Envoy's protocol, counted in Redis"
	many, shared := r.ServiceNamed("rls-unary"), r.ServiceNamed("rls-redis")
	return []harness.Bar{
		many.RatesAbove("headgate", "floor", unary, 1, ""),
		many.RatesAbove("headgate", "floor", unary, 1.25, " (to reach for)"),
		shared.RatesAbove("headgate", "peer", redis, 2, ""),
		shared.RatesAbove("headgate", "peer-pipelined", redis, 2, ""),
		r.ServiceNamed("rls-idle").TailBelow("headgate", "floor", "Envoy's protocol, p99 of one call on an idle server", 1.3),
	}
}

func rlsMethod(b *strings.Builder, _ *harness.Results) {
	fmt.Fprintf(b, `- Envoy's protocol: each request has one descriptor with one of %s users by chance, whose limit of an hour none meets. The load speaks
  just enough HTTP/2 to keep so many calls under way on one connection, as a worker of Envoy does, and takes a fraction of a server's work. The floor answers the same message by generated code, and decides
  nothing. In Redis: one server for all, on the core of the load; envoyproxy/ratelimit is the published module, with its defaults and without
  statistics, and once more with its commands gathered as its documentation proposes.
`, harness.HumanCount(rlsKeys))
}

func rlsVersions() []harness.ModuleVersion {
	var list []harness.ModuleVersion
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/envoyproxy/ratelimit" || m.Path == "google.golang.org/grpc" {
				list = append(list, harness.ModuleVersion{Module: m.Path, Version: m.Version})
			}
		}
	}
	return list
}
