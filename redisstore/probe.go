package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redisurl"
)

// minMajor is the oldest version that has what the scripts need.
const minMajor = 6

const (
	// maxSkew is how far a server's clock may be off before it is worth a warning.
	maxSkew = time.Second
	// nearlyFull is how much of a server's memory may be taken, in percent.
	nearlyFull = 90
)

// A Warning is a setting of a server, or a state it is in, that breaks limits or soon will.
type Warning struct {
	// Server is its address.
	Server string
	// What is wrong, and what comes of it.
	What string
	// Cure says what to do.
	Cure string
}

func (w Warning) String() string { return w.Server + ": " + w.What + ": " + w.Cure }

// Warnings returns what was found to be wrong with the servers when they were connected to. It was logged, too.
func (s *Store) Warnings() []Warning {
	if p := s.conn.warnings.Load(); p != nil {
		return slices.Clone(*p)
	}
	return nil
}

// Inspect checks the servers again, as Open does, and returns what Warnings does from then on.
func (s *Store) Inspect(ctx context.Context) ([]Warning, error) {
	switch {
	case ctx == nil:
		return nil, headgate.ErrNilContext
	case s.closed.Load():
		return nil, headgate.ErrClosed
	}
	if _, err := s.conn.arrive(ctx); err != nil {
		return nil, err
	}
	return s.Warnings(), nil
}

// probe checks all primaries that can be asked, and returns the lowest major version. What makes the store unusable is an
// error; what breaks limits is logged and kept for Warnings.
func (c *connection) probe(ctx context.Context) (int, error) {
	m := c.topology.Load()
	surveys := make([]survey, len(m.shards))
	var group sync.WaitGroup
	for i, s := range m.shards {
		group.Go(func() { surveys[i] = c.survey(ctx, s.primary) })
	}
	group.Wait()
	var (
		warnings []Warning
		major    int
		failed   error
		checked  int
	)
	for _, v := range surveys {
		if lasting(v.err) {
			return 0, v.err
		}
		if v.err != nil {
			failed = v.err
			warnings = append(warnings, Warning{v.server, "could not be checked: " + v.err.Error(), "see why, and Inspect the store again"})
			continue
		}
		checked++
		warnings = append(warnings, v.warnings...)
		if v.major > 0 && (major == 0 || v.major < major) {
			major = v.major
		}
	}
	if checked == 0 && failed != nil {
		return 0, failed
	}
	warnings = append(warnings, skewBetween(surveys)...)
	if n := m.uncovered(); n > 0 {
		warnings = append(warnings, Warning{
			"the cluster at " + c.endpoint.Addrs[0], fmt.Sprintf("%d of %d slots have no server: one client in %d cannot be limited", n, slots, slots/n),
			"assign them, as redis-cli --cluster fix does",
		})
	}
	for _, w := range warnings {
		c.log.Warn("redis breaks limits", "server", w.Server, "what", w.What, "cure", w.Cure)
	}
	c.warnings.Store(&warnings)
	return major, nil
}

// A survey is what was found about one server.
type survey struct {
	server   string
	major    int
	skew     time.Duration // of its clock, how much later it is there
	inexact  time.Duration // by how much that may be off
	timed    bool
	warnings []Warning
	err      error
}

func (v *survey) warn(what, cure string) {
	v.warnings = append(v.warnings, Warning{v.server, what, cure})
}

func (c *connection) survey(ctx context.Context, n *node) survey {
	v := survey{server: n.addr}
	if v.err = c.checkScripts(ctx, n); v.err != nil {
		return v
	}
	text, err := n.do(ctx, c.builder.Info().Build()).ToString()
	switch {
	case err == nil:
		v.err = v.read(parseInfo(text), c.endpoint.Kind)
	case strings.HasPrefix(err.Error(), "NOPERM"):
		v.warn("does not let its user run INFO, so its version and settings were not checked", "ACL SETUSER name +info")
	default:
		v.err = explain(err, n.addr)
	}
	if v.err == nil {
		v.readClock(ctx, n, c.builder)
	}
	if v.err == nil && c.endpoint.Kind == redisurl.Cluster {
		v.readCoverage(ctx, n, c.builder)
	}
	return v
}

// readCoverage sees whether one dead shard would be the end of all.
func (v *survey) readCoverage(ctx context.Context, n *node, b rueidis.Builder) {
	const setting = "cluster-require-full-coverage"
	found, err := n.do(ctx, b.ConfigGet().Parameter(setting).Build()).AsStrMap()
	if err == nil && found[setting] == "yes" { // not everybody may ask
		v.warn("serves nobody while any shard of its cluster is down ("+setting+" is yes)", "CONFIG SET "+setting+" no, on all servers")
	}
}

// checkScripts sees whether the server runs Lua for its user, whole and by name.
func (c *connection) checkScripts(ctx context.Context, n *node) error {
	check := newScript(0, writes, readyBody)
	err := n.do(ctx, c.builder.Eval().Script(check.body).Numkeys(0).Build()).Error()
	if err == nil {
		err = n.do(ctx, c.builder.Evalsha().Sha1(check.sha).Numkeys(0).Build()).Error()
	}
	if err == nil || unknownScript(err) { // somebody has flushed them since, and it may be run
		return nil
	}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		e := &ServerError{Server: n.addr, Err: err, lasting: true}
		switch text := reply.Error(); {
		case strings.HasPrefix(text, "NOPERM"):
			e.What, e.Cure = "does not let its user run scripts, which decide", cureACL
			return e
		case strings.Contains(text, "unknown command") && c.isSentinel(ctx, n):
			e.What, e.Cure = "is a sentinel, which counts nothing", "want redis-sentinel://host:port/name, with the name that SENTINEL MASTERS tells"
			return e
		case strings.Contains(text, "unknown command"), strings.Contains(text, "scripting engine"):
			e.What, e.Cure = "has no Lua, in which decisions are made", "load its Lua module, or use a server that has Lua built in"
			return e
		}
	}
	return explain(err, n.addr)
}

// isSentinel reports whether a server says that it is one.
func (c *connection) isSentinel(ctx context.Context, n *node) bool {
	text, err := n.do(ctx, c.builder.Info().Section("server").Build()).ToString()
	return err == nil && parseInfo(text)["redis_mode"] == "sentinel"
}

// read checks what INFO says.
func (v *survey) read(info map[string]string, kind redisurl.Kind) error {
	name, version := "Redis", info["redis_version"]
	v.major = majorOf(version)
	if other := info["valkey_version"]; other != "" {
		name, version = "Valkey", other
	}
	e := &ServerError{Server: v.server, lasting: true}
	switch {
	case v.major > 0 && v.major < minMajor:
		e.What, e.Cure = fmt.Sprintf("is %s %s, which is too old", name, version), fmt.Sprintf("want Redis %d.0 or later, or Valkey", minMajor)
		return e
	case kind == redisurl.Standalone && info["cluster_enabled"] == "1":
		e.What, e.Cure = "is of a cluster, though the URL does not say so", "want redis-cluster://"
		return e
	case kind == redisurl.Standalone && info["role"] == roleReplica:
		e.What = fmt.Sprintf("is a replica of %s:%s, and takes no writes", info["master_host"], info["master_port"])
		e.Cure = curePrimary
		return e
	case info["loading"] == "1":
		e.What, e.lasting = "is still loading its data", false
		return e
	}
	v.readMemory(info)
	v.readDisk(info)
	return nil
}

func (v *survey) readMemory(info map[string]string) {
	most, used, policy := number(info, "maxmemory"), number(info, "used_memory"), info["maxmemory_policy"]
	if system := number(info, "total_system_memory"); most == 0 && system > 0 && used*100 > system*nearlyFull {
		v.warn(fmt.Sprintf("uses %s of its host's %s of memory, and nothing bounds it", inBytes(used), inBytes(system)),
			"set its maxmemory below what its host has")
	}
	if most == 0 {
		return
	}
	if policy != "" && policy != "noeviction" {
		v.warn(fmt.Sprintf("forgets keys when its %s are full (maxmemory-policy is %s): clients whose keys are forgotten start anew, and pass their limits",
			inBytes(most), policy), "CONFIG SET maxmemory-policy noeviction, and keep caches elsewhere")
		return
	}
	if used*100 > most*nearlyFull {
		v.warn(fmt.Sprintf("has used %s of its %s of memory: soon it takes no new clients, and decisions fail", inBytes(used), inBytes(most)),
			"raise its maxmemory")
	}
}

func (v *survey) readDisk(info map[string]string) {
	if info["rdb_last_bgsave_status"] == "err" || info["aof_last_write_status"] == "err" {
		v.warn("could not save to disk, and may take no writes because of that", "see its log, free its disk, or CONFIG SET stop-writes-on-bgsave-error no")
	}
}

// readClock compares the server's clock with ours, three times, and believes the answer that was quickest.
func (v *survey) readClock(ctx context.Context, n *node, b rueidis.Builder) {
	for range 3 {
		before := time.Now()
		fields, err := n.do(ctx, b.Time().Build()).AsStrSlice()
		took := time.Since(before)
		if err != nil || len(fields) < 2 {
			return
		}
		seconds, err1 := strconv.ParseInt(fields[0], 10, 64)
		micros, err2 := strconv.ParseInt(fields[1], 10, 64)
		if err1 != nil || err2 != nil {
			return
		}
		if inexact := took / 2; !v.timed || inexact < v.inexact {
			v.skew = time.Unix(seconds, micros*1000).Sub(before.Add(inexact))
			v.inexact, v.timed = inexact, true
		}
	}
	if v.skew.Abs() > maxSkew+v.inexact {
		v.warn(fmt.Sprintf("has a clock that is %v %s ours: limits go by it, and times in answers too", v.skew.Abs().Round(10*time.Millisecond), lateness(v.skew)),
			"synchronize the clocks of both hosts, as NTP does")
	}
}

func lateness(d time.Duration) string {
	if d > 0 {
		return "ahead of"
	}
	return "behind"
}

// skewBetween compares the clocks of the primaries.
func skewBetween(surveys []survey) []Warning {
	var first, last *survey
	for i := range surveys {
		v := &surveys[i]
		if !v.timed {
			continue
		}
		if first == nil || v.skew < first.skew {
			first = v
		}
		if last == nil || v.skew > last.skew {
			last = v
		}
	}
	if first == nil || last.skew-first.skew <= maxSkew+first.inexact+last.inexact {
		return nil
	}
	return []Warning{{
		first.server,
		fmt.Sprintf("has a clock that is %v behind that of %s: windows of clients there end later", (last.skew - first.skew).Round(10*time.Millisecond), last.server),
		"synchronize the clocks of the servers, as NTP does",
	}}
}

// parseInfo reads the answer of INFO: lines of name:value.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) { // which tells of the kind of text
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// number returns a whole number of INFO, 0 if there is none.
func number(info map[string]string, name string) int64 {
	n, _ := strconv.ParseInt(info[name], 10, 64)
	return n
}

func majorOf(version string) int {
	major, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(major)
	return n
}

func inBytes(n int64) string {
	const mib = 1 << 20
	if n >= 10*1024*mib {
		return fmt.Sprintf("%d GiB", n/(1024*mib))
	}
	if n >= 10*mib {
		return fmt.Sprintf("%d MiB", n/mib)
	}
	return fmt.Sprintf("%d KiB", n/1024)
}
