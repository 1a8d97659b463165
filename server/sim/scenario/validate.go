package scenario

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file/source"
)

// The maximum values of a scenario.
const (
	MaxNodes    = 10_000
	MaxShards   = 1000
	MaxGroups   = 64
	MaxClients  = 1_000_000_000
	MaxDuration = 30 * 24 * time.Hour
	// MaxRate is the maximum number of requests per second of a source. At this rate, the time between two requests is
	// still more than 0.
	MaxRate = 100_000_000
	// MaxBurstClients is the maximum number of clients of a source with ClientOn. It is lower than MaxClients, because a
	// list contains all these clients.
	MaxBurstClients = 10_000_000
)

// defaultDelay is the default of Network.Delay.
const defaultDelay = 250 * time.Microsecond

func (s *Scenario) setDefaults(file string) {
	base := filepath.Base(file)
	s.Name = cmp.Or(s.Name, strings.TrimSuffix(base, filepath.Ext(base)))
	s.Nodes = cmp.Or(s.Nodes, 1)
	s.Balance = cmp.Or(s.Balance, RoundRobin)
	s.SampleOneIn, s.Groups = cmp.Or(s.SampleOneIn, 1), cmp.Or(s.Groups, 1)
	s.Redis.Shards = cmp.Or(s.Redis.Shards, 1)
	s.Redis.Service = cmp.Or(s.Redis.Service, 10*time.Microsecond)
	s.Redis.Deadline = cmp.Or(s.Redis.Deadline, 20*time.Millisecond)
	s.Network.Distribution = cmp.Or(s.Network.Distribution, Exponential)
	if s.Network.Delay == nil {
		delay := defaultDelay
		s.Network.Delay = &delay
	}
	s.Regions.setDefaults()
	if len(s.Modes) == 0 {
		s.Modes = []rules.Consistency{rules.Local}
	}
	for i := range s.Traffic {
		t := &s.Traffic[i]
		t.Name = cmp.Or(t.Name, "traffic")
		t.Pattern = cmp.Or(t.Pattern, Poisson)
		t.Prefix = cmp.Or(t.Prefix, "client")
		t.Clients = cmp.Or(t.Clients, 1)
		t.Cost = cmp.Or(t.Cost, 1)
		t.Until = cmp.Or(t.Until, s.Duration)
		if t.Pattern == Diurnal {
			t.Period = cmp.Or(t.Period, s.Duration)
		}
		if t.Log != "" {
			if !filepath.IsAbs(t.Log) {
				t.Log = filepath.Join(filepath.Dir(file), t.Log)
			}
			t.LogKey, t.Speed = cmp.Or(t.LogKey, "ip"), cmp.Or(t.Speed, 1)
		}
		if t.Retry != nil {
			t.Retry.Attempts = cmp.Or(t.Retry.Attempts, 3)
			if !t.Retry.Honour {
				t.Retry.Wait = cmp.Or(t.Retry.Wait, 100*time.Millisecond)
			}
		}
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		f.For = cmp.Or(f.For, s.Duration)
	}
}

// problems collects the problems of a scenario.
type problems struct{ list []source.Problem }

// add adds a problem if ok is false.
func (p *problems) add(ok bool, path, value, want string) {
	if !ok {
		p.list = append(p.list, source.Problem{Path: path, Value: value, Want: want})
	}
}

// Validate returns the invalid values of a scenario, with their paths.
func (s *Scenario) Validate() []source.Problem {
	var p problems
	p.add(s.hasDuration(), "duration", s.Duration.String(),
		"a time of up to 30 days, as in 1m")
	p.add(s.Nodes >= 1 && s.Nodes <= MaxNodes, "nodes", strconv.Itoa(s.Nodes), fmt.Sprint("1 to ", MaxNodes))
	s.validateRegions(&p)
	p.add(s.Seed >= 0, "seed", strconv.Itoa(s.Seed), "0 or more")
	p.add(len(s.Limits) > 0, "limits", "no limits", "a list of limits, as in [100/s burst 200]")
	p.add(s.SampleOneIn >= 1, "sample_one_in", strconv.Itoa(s.SampleOneIn), "1 or more")
	p.add(s.Groups >= 1 && s.Groups <= MaxGroups && (!s.usesRedis() || s.Redis.Shards%s.Groups == 0), "groups",
		strconv.Itoa(s.Groups), fmt.Sprint("1 to ", MaxGroups, ", and a divisor of redis.shards if a mode uses Redis"))
	p.add(s.Redis.Shards >= 1 && s.Redis.Shards <= MaxShards, "redis.shards", strconv.Itoa(s.Redis.Shards),
		fmt.Sprint("1 to ", MaxShards))
	p.add(s.Network.Loss < 100, "network.loss", fmt.Sprint(s.Network.Loss), "less than 100 percent")
	p.add(s.LeaseTTL <= 100*time.Millisecond, "lease_ttl", s.LeaseTTL.String(), "up to 100ms")
	p.add(s.SyncInterval == 0 || s.SyncInterval >= 10*time.Millisecond && s.SyncInterval <= 10*time.Second,
		"sync_interval", s.SyncInterval.String(), "10ms to 10s")
	s.validateCombinations(&p)
	p.add(len(s.Traffic) > 0, "traffic", "no traffic", "a list of sources, as in [{ rate: 100, clients: 10 }]")
	for i := range s.Traffic {
		s.validateSource(&p, &s.Traffic[i], fmt.Sprintf("traffic[%d]", i))
	}
	for i := range s.Faults {
		s.validateFault(&p, &s.Faults[i], fmt.Sprintf("faults[%d]", i))
	}
	return p.list
}

// hasDuration reports whether the duration is valid. If it is not, times are not compared with it.
func (s *Scenario) hasDuration() bool { return s.Duration > 0 && s.Duration <= MaxDuration }

// usesRedis reports whether nodes share counters through Redis in one of the modes.
func (s *Scenario) usesRedis() bool {
	return slices.ContainsFunc(s.Modes, func(m rules.Consistency) bool { return m != rules.Local && m != rules.Gossip })
}

// validateCombinations checks that every mode supports every algorithm.
func (s *Scenario) validateCombinations(p *problems) {
	for i, mode := range s.Modes {
		p.add(mode != rules.ByStore, fmt.Sprintf("modes[%d]", i), "no mode", "local, exact, lease, async or gossip")
		p.add(!slices.Contains(s.Modes[:i], mode), fmt.Sprintf("modes[%d]", i), mode.String(), "each mode once")
	}
	for i, a := range s.Algorithms {
		for j, l := range s.Limits {
			if _, err := WithAlgorithm(l, a); err != nil {
				p.add(false, fmt.Sprintf("algorithms[%d]", i), err.Error(), fmt.Sprintf("one that can count limits[%d]", j))
			}
		}
	}
	for i, a := range s.Algorithms {
		p.add(!slices.Contains(s.Algorithms[:i], a), fmt.Sprintf("algorithms[%d]", i), a.String(), "each algorithm once")
	}
	s.validateJudge(p)
	for _, v := range s.Variants() {
		for _, l := range v.Limits {
			ok, _ := rules.Compatible(v.Mode, l.Algorithm)
			p.add(ok, "modes", fmt.Sprintf("%s cannot count %s", v.Mode, l.Algorithm), "another mode or algorithm")
			p.add(!l.Staggered, "limits", l.String(), "a limit that is not staggered")
			p.add(l.Algorithm != headgate.Concurrency, "limits", l.String(),
				"limits of rates: requests of a simulation end at once")
		}
	}
}

// validateJudge checks that the decisions under every limit can be judged.
func (s *Scenario) validateJudge(p *problems) {
	refused := make(map[int]bool) // by the index of a limit
	for _, v := range s.Variants() {
		for i, l := range v.Limits {
			_, err := Judge(l, s.JudgeBy)
			switch {
			case err == nil || refused[i]:
				continue
			case s.JudgeBy != nil:
				p.add(false, "judge_by", s.JudgeBy.String(), fmt.Sprintf("an algorithm that can count %s", s.Limits[i]))
			default:
				p.add(false, fmt.Sprintf("limits[%d]", i), s.Limits[i].String(), fmt.Sprintf(
					"at most %d units, which the exact log that judges %s can count, or judge_by: %s",
					headgate.MaxLogCount, l.Algorithm, l.Algorithm))
			}
			refused[i] = true
		}
	}
}

// validateLog checks the fields of a source that depend on whether it replays a log.
func validateLog(p *problems, t *Source, path string) {
	if t.Log == "" {
		p.add(t.Rate > 0 && t.Rate <= MaxRate, path+".rate", fmt.Sprint(t.Rate),
			"requests per second, above 0 and up to 100M, or a log")
		p.add(t.LogFormat == "" && t.LogKey == "" && t.Speed == 0, path, "log_format, log_key or speed without a log", "a log")
		return
	}
	info, err := os.Stat(t.Log)
	p.add(err == nil && !info.IsDir(), path+".log", t.Log, "an access log that exists")
	p.add(t.Rate == 0 && t.Clients == 1 && t.Zipf == 0 && t.On == 0 && t.ClientOn == 0 && t.Pattern == Poisson, path+".log",
		"a log beside generated traffic", "no rate, pattern, clients, zipf, on or client_on: the log has the requests")
	_, err = headgate.ParseAttribute(t.LogKey)
	p.add(err == nil, path+".log_key", t.LogKey, "an attribute, as in ip, user or header.user-agent")
	p.add(t.Speed > 0 && t.Speed <= 1e6, path+".speed", fmt.Sprint(t.Speed), "a factor above 0, as in 10")
}

func (s *Scenario) validateSource(p *problems, t *Source, path string) {
	validateLog(p, t, path)
	p.add(t.Clients >= 1 && t.Clients <= MaxClients, path+".clients", strconv.Itoa(t.Clients),
		fmt.Sprint("1 to ", MaxClients))
	p.add(t.Zipf == 0 || t.Zipf > 1, path+".zipf", fmt.Sprint(t.Zipf), "an exponent above 1, as in 1.1")
	p.add(t.Zipf == 0 || t.Clients > 1 || t.Log != "", path+".zipf", fmt.Sprint(t.Zipf), "clients, as in clients: 1000")
	p.add(t.Peak == 0 || t.Pattern == Diurnal, path+".peak", fmt.Sprint(t.Peak), "pattern: diurnal")
	p.add(t.Period == 0 || t.Pattern == Diurnal, path+".period", t.Period.String(), "pattern: diurnal")
	p.add(t.Pattern != Diurnal || t.Peak >= t.Rate && t.Peak <= MaxRate, path+".peak", fmt.Sprint(t.Peak),
		"a peak of at least the rate, up to 100M")
	p.add((t.On > 0) == (t.Off > 0), path+".on", "one of on and off", "both or none")
	p.add((t.ClientOn > 0) == (t.ClientOff > 0), path+".client_on", "one of client_on and client_off", "both or none")
	p.add(t.ClientOn == 0 || t.Clients <= MaxBurstClients, path+".clients", strconv.Itoa(t.Clients),
		fmt.Sprint("up to ", MaxBurstClients, " with client_on"))
	p.add(t.Cost >= 1, path+".cost", strconv.Itoa(t.Cost), "1 or more")
	if s.hasDuration() {
		p.add(t.From < s.Duration, path+".from", t.From.String(), "a time before the end, "+s.Duration.String())
		p.add(t.From < t.Until, path+".until", t.Until.String(), "a time after from")
		p.add(t.Until <= s.Duration, path+".until", t.Until.String(), "a time up to the end, "+s.Duration.String())
	}
	if t.Region != nil {
		s.validateRegion(p, *t.Region, path+".region")
	}
	for _, l := range s.Limits {
		p.add(int64(t.Cost) <= l.Capacity(), path+".cost", strconv.Itoa(t.Cost),
			fmt.Sprintf("at most %d, which %s can admit", l.Capacity(), l))
	}
	if t.Retry != nil {
		p.add(t.Retry.Attempts >= 2 && t.Retry.Attempts <= 1000, path+".retry.attempts", strconv.Itoa(t.Retry.Attempts),
			"2 to 1000")
		p.add(!t.Retry.Honour || t.Retry.Wait == 0, path+".retry.wait", t.Retry.Wait.String(),
			"one of wait and honour_retry_after")
	}
}

// nodesBefore returns the number of nodes at the time of a fault, with those that have joined before.
func (s *Scenario) nodesBefore(f *Fault) int {
	nodes := s.AllNodes()
	for i := range s.Faults {
		if join := &s.Faults[i]; join.Kind == Join && join.At < f.At {
			nodes += max(0, join.Count) * max(1, len(join.Regions))
		}
	}
	return nodes
}

func (s *Scenario) validateFault(p *problems, f *Fault, path string) {
	p.add(f.Kind != "", path+".kind", "no kind", "a kind of fault, as in crash")
	p.add(f.At < s.Duration || !s.hasDuration(), path+".at", f.At.String(), "a time before the end, "+s.Duration.String())
	nodes := s.nodesBefore(f)
	for i, n := range f.Nodes {
		p.add(n >= 0 && n < nodes || s.AllNodes() < 1, fmt.Sprintf("%s.nodes[%d]", path, i), strconv.Itoa(n),
			fmt.Sprint("0 to ", nodes-1))
	}
	if f.Shard != nil {
		p.add(*f.Shard >= 0 && *f.Shard < s.Redis.Shards || s.Redis.Shards < 1, path+".shard", strconv.Itoa(*f.Shard),
			fmt.Sprint("0 to ", s.Redis.Shards-1))
	}
	only := func(set bool, field string, kinds ...FaultKind) {
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = string(k)
		}
		p.add(!set || slices.Contains(kinds, f.Kind), path+"."+field, "a field of other kinds",
			"kind: "+strings.Join(names, " or "))
	}
	only(f.Count != 0, "count", Join)
	only(f.Delay != 0, "delay", Slow)
	only(f.Loss != 0, "loss", Lossy)
	only(f.By != 0, "by", RedisClock, NodeClock)
	only(f.Keep, "keep_data", Failover)
	only(f.Shard != nil, "shard", RedisDown, Failover, RedisClock)
	only(len(f.Nodes) > 0, "nodes", Crash, Partition, NodeClock)
	only(len(f.Regions) > 0, "regions", Crash, NodeClock, Join, RedisDown, Failover, RedisClock, RegionPartition)
	only(f.Global, "global", RedisDown, Failover, RedisClock)
	only(f.Between, "between_regions", Slow, Lossy)
	p.add(f.Kind != RedisDown && f.Kind != Failover && f.Kind != RedisClock || s.usesRedis(), path+".kind", string(f.Kind),
		"a mode that uses Redis: exact, lease or async")
	s.validateFaultRegions(p, f, path)
	switch f.Kind {
	case Join:
		p.add(f.Count >= 1 && f.Count <= MaxNodes, path+".count", strconv.Itoa(f.Count), "the number of nodes that join")
	case Slow:
		p.add(f.Delay > 0, path+".delay", f.Delay.String(), "a delay, as in 50ms")
	case Lossy:
		p.add(f.Loss > 0 && f.Loss <= 100, path+".loss", fmt.Sprint(f.Loss), "a percentage, as in 5")
	case RedisClock, NodeClock:
		p.add(f.By != 0, path+".by", "0", "a time, as in 5s or -5s")
	case Partition:
		p.add(len(f.Nodes) > 0, path+".nodes", "no nodes", "the nodes that are cut off")
	}
}
