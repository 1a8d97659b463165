package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/internal/redisurl"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

// minMajor is the oldest major version of Redis that can run the scripts.
const minMajor = 6

const (
	// maxSkew is the largest clock skew of a server without a warning.
	maxSkew = time.Second
	// nearlyFullPercent is the largest memory use, in percent, without a warning.
	nearlyFullPercent = 90
)

// A Warning describes a setting or state of a server that breaks limits, or soon will.
type Warning struct {
	// Server is the address of the server.
	Server string
	// Problem says what is wrong and what the consequences are. It is a sentence without its subject, the server.
	Problem string
	// Fix says how to fix the problem.
	Fix string
}

func (w Warning) String() string { return w.Server + ": " + w.Problem + ": " + w.Fix }

// An inspection holds the results of inspecting the servers.
type inspection struct {
	warnings     atomic.Pointer[[]Warning]
	permanentErr atomic.Pointer[error] // why connectLater cannot use the servers, or nil
	cpu          cpuSamples
}

// Warnings returns the warnings of the last inspection of the servers, by Open or Inspect, which also logged them.
func (s *Store) Warnings() []Warning {
	if p := s.servers.warnings.Load(); p != nil {
		return slices.Clone(*p)
	}
	return nil
}

// Inspect checks the servers again, as Open does, and returns the new warnings.
func (s *Store) Inspect(ctx context.Context) ([]Warning, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	if err := s.client.Connect(ctx); err != nil {
		return nil, err
	}
	if _, err := s.inspect(ctx); err != nil {
		return nil, err
	}
	return s.Warnings(), nil
}

// inspect checks all primaries, and returns the lowest major version of Redis. It returns an error if the store cannot
// use the servers. It logs settings that break limits, and stores them for Warnings.
func (s *Store) inspect(ctx context.Context) (major int, err error) {
	m, err := s.client.Map()
	if err != nil {
		return 0, err
	}
	reports := make([]serverReport, len(m.Shards))
	var group sync.WaitGroup
	for i, shard := range m.Shards {
		group.Go(func() { reports[i] = s.inspectServer(ctx, shard.Primary) })
	}
	group.Wait()
	var (
		warnings []Warning
		lastErr  error
		checked  int
	)
	for _, r := range reports {
		if topology.IsPermanent(r.err) {
			return 0, r.err
		}
		if r.err != nil {
			lastErr = r.err
			warnings = append(warnings, Warning{
				r.server, "could not be checked: " + r.err.Error(), "fix that, and inspect the store again",
			})
			continue
		}
		checked++
		warnings = append(warnings, r.warnings...)
		if r.major > 0 && (major == 0 || r.major < major) {
			major = r.major
		}
	}
	if checked == 0 && lastErr != nil {
		return 0, lastErr
	}
	warnings = append(warnings, compareClocks(reports)...)
	if n, total := m.UnassignedSlots(); n > 0 {
		warnings = append(warnings, Warning{
			"the cluster at " + s.client.Endpoint().Addrs[0],
			fmt.Sprintf("%d of %d slots have no server: one client in %d cannot be limited", n, total, total/n),
			"assign them, for example with redis-cli --cluster fix",
		})
	}
	for _, w := range warnings {
		s.log.Warn("redis setting breaks limits", "server", w.Server, "problem", w.Problem, "fix", w.Fix)
	}
	s.servers.warnings.Store(&warnings)
	return major, nil
}

// A serverReport is the result of inspecting one server.
type serverReport struct {
	server   string
	major    int
	clock    clockReading
	warnings []Warning
	err      error
}

func (r *serverReport) warn(problem, fix string) {
	r.warnings = append(r.warnings, Warning{r.server, problem, fix})
}

func (s *Store) inspectServer(ctx context.Context, server *topology.Server) serverReport {
	r, builder, kind := serverReport{server: server.Addr()}, s.client.Builder(), s.client.Endpoint().Kind
	if r.err = checkScripts(ctx, server, builder); r.err != nil {
		return r
	}
	text, err := server.Do(ctx, builder.Info().Build()).ToString()
	switch {
	case err == nil:
		r.err = r.checkInfo(topology.ParseInfo(text), kind)
	case strings.HasPrefix(err.Error(), "NOPERM"):
		r.warn("does not let its user run INFO, so its version and settings were not checked", "ACL SETUSER name +info")
	default:
		r.err = topology.Explain(err, server.Addr())
	}
	if r.err == nil {
		r.checkClock(ctx, server, builder, s.clock)
	}
	if r.err == nil && kind == redisurl.Cluster {
		r.checkCoverage(ctx, server, builder)
	}
	return r
}

// checkCoverage warns if the whole cluster stops when one shard is down.
func (r *serverReport) checkCoverage(ctx context.Context, server *topology.Server, b rueidis.Builder) {
	const setting = "cluster-require-full-coverage"
	config, err := server.Do(ctx, b.ConfigGet().Parameter(setting).Build()).AsStrMap()
	if err == nil && config[setting] == "yes" { // the user may not be allowed to run CONFIG
		r.warn("serves no keys while any shard of its cluster is down ("+setting+" is yes)",
			"CONFIG SET "+setting+" no, on all servers")
	}
}

// checkScripts checks that the server runs Lua for its user, with EVAL and EVALSHA.
func checkScripts(ctx context.Context, server *topology.Server, b rueidis.Builder) error {
	check := newScript(0, writeLine, readyBody)
	err := server.Do(ctx, b.Eval().Script(check.body).Numkeys(0).Build()).Error()
	if err == nil {
		err = server.Do(ctx, b.Evalsha().Sha1(check.sha).Numkeys(0).Build()).Error()
	}
	if err == nil || isUnknownScript(err) { // NOSCRIPT: the scripts were flushed after EVAL, but EVALSHA is allowed
		return nil
	}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		e := &ServerError{Server: server.Addr(), Err: err, Permanent: true}
		switch text := reply.Error(); {
		case strings.HasPrefix(text, "NOPERM"):
			e.Problem, e.Fix = "does not let its user run scripts, which decisions need", topology.FixACL
			return e
		case strings.Contains(text, "unknown command") && isSentinel(ctx, server, b):
			e.Problem = "is a sentinel, which counts nothing"
			e.Fix = "use redis-sentinel://host:port/name, with a name from SENTINEL MASTERS"
			return e
		case strings.Contains(text, "unknown command"), strings.Contains(text, "scripting engine"):
			e.Problem = "has no Lua, which decisions need"
			e.Fix = "load its Lua module, or use a server with Lua built in"
			return e
		}
	}
	return topology.Explain(err, server.Addr())
}

// isSentinel reports whether a server is a sentinel.
func isSentinel(ctx context.Context, server *topology.Server, b rueidis.Builder) bool {
	text, err := server.Do(ctx, b.Info().Section("server").Build()).ToString()
	return err == nil && topology.ParseInfo(text)["redis_mode"] == "sentinel"
}

// checkInfo checks the fields of INFO.
func (r *serverReport) checkInfo(info map[string]string, kind redisurl.Kind) error {
	name, version := "Redis", info["redis_version"]
	r.major = majorOf(version)
	if valkey := info["valkey_version"]; valkey != "" {
		name, version = "Valkey", valkey
	}
	e := &ServerError{Server: r.server, Permanent: true}
	switch {
	case r.major > 0 && r.major < minMajor:
		e.Problem = fmt.Sprintf("is %s %s, which is too old", name, version)
		e.Fix = fmt.Sprintf("use Redis %d.0 or later, or Valkey", minMajor)
		return e
	case kind == redisurl.Standalone && info["cluster_enabled"] == "1":
		e.Problem, e.Fix = "is part of a cluster, although the URL does not say so", "use redis-cluster://"
		return e
	case kind == redisurl.Standalone && info["role"] == topology.RoleReplica:
		e.Problem = fmt.Sprintf("is a replica of %s:%s, and takes no writes", info["master_host"], info["master_port"])
		e.Fix = topology.FixPrimary
		return e
	case info["loading"] == "1":
		e.Problem, e.Permanent = "is still loading its data", false
		return e
	}
	r.checkMemory(info)
	r.checkDisk(info)
	return nil
}

func (r *serverReport) checkMemory(info map[string]string) {
	number := func(name string) int64 { return topology.Number(info, name) }
	maxMemory, used, policy := number("maxmemory"), number("used_memory"), info["maxmemory_policy"]
	if maxMemory == 0 {
		system := number("total_system_memory")
		if system > 0 && used*100 > system*nearlyFullPercent {
			r.warn(fmt.Sprintf("uses %s of its host's %s of memory, without a limit", formatBytes(used), formatBytes(system)),
				"set its maxmemory below the memory of its host")
		}
		return
	}
	if policy != "" && policy != "noeviction" {
		r.warn(fmt.Sprintf("evicts keys when its %s are full (maxmemory-policy is %s): evicted clients get their full "+
			"limit again, and exceed it", formatBytes(maxMemory), policy),
			"CONFIG SET maxmemory-policy noeviction, and keep caches elsewhere")
		return
	}
	if used*100 > maxMemory*nearlyFullPercent {
		r.warn(fmt.Sprintf("has used %s of its %s of memory: soon it accepts no new clients, and decisions fail",
			formatBytes(used), formatBytes(maxMemory)), "raise its maxmemory")
	}
}

func (r *serverReport) checkDisk(info map[string]string) {
	if info["rdb_last_bgsave_status"] == "err" || info["aof_last_write_status"] == "err" {
		r.warn("could not save to disk, and may therefore refuse writes",
			"see its log, free its disk, or CONFIG SET stop-writes-on-bgsave-error no")
	}
}

// majorOf returns the major number of a version, or 0 if the version is unknown.
func majorOf(version string) int {
	text, _, _ := strings.Cut(version, ".")
	major, _ := strconv.Atoi(text)
	return major
}

func formatBytes(n int64) string {
	const mib = 1 << 20
	if n >= 10*1024*mib {
		return fmt.Sprintf("%d GiB", n/(1024*mib))
	}
	if n >= 10*mib {
		return fmt.Sprintf("%d MiB", n/mib)
	}
	return fmt.Sprintf("%d KiB", n/1024)
}
