package control

import (
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate/rules/file/source"
)

// HealthStats are the statistics of a node that alerts depend on.
type HealthStats struct {
	// FailingOpen are the rules under which requests are admitted without a limit, because the store fails, and
	// FailingOpenRules is their number, which may be more than MaxFailingOpen. UnlimitedPerSecond is the rate of these
	// requests, each counted once, also if it matches several rules. Rates are averages since the requests began, over at
	// most 10 s.
	FailingOpen        []RuleRate `json:"failing_open,omitempty"`
	FailingOpenRules   int        `json:"failing_open_rules,omitempty"`
	UnlimitedPerSecond float64    `json:"unlimited_per_second,omitempty"`
	// UnlimitedSince is when these requests began. UnlimitedUntil is zero while there are such requests, and otherwise the
	// time of the last one: 10 s later it is no longer reported.
	UnlimitedSince time.Time `json:"unlimited_since,omitzero"`
	UnlimitedUntil time.Time `json:"unlimited_until,omitzero"`
	// OtherFallbacks are rules with on_failure: closed or local that decided meanwhile, because the store fails.
	OtherFallbacks []string `json:"other_fallbacks,omitempty"`
	// OpenShards are the shards of the store whose circuit is open.
	OpenShards []string `json:"open_shards,omitempty"`
	// StoreP99MS is the 99th percentile of the duration of store calls, 0 if there were none.
	StoreP99MS float64 `json:"store_p99_ms,omitempty"`
	// MemoryBytes is the memory of the node's own counters, and MemoryMaxBytes its maximum.
	MemoryBytes    int64 `json:"memory_bytes"`
	MemoryMaxBytes int64 `json:"memory_max_bytes"`
	// Certificates are the certificates of the node's listeners.
	Certificates []CertificateExpiry `json:"certificates,omitempty"`
	// Servers are the Redis servers, as this node sees them.
	Servers []ServerStats `json:"servers,omitempty"`
}

// A RuleRate is a rate of requests under a rule.
type RuleRate struct {
	Rule      string  `json:"rule"`
	PerSecond float64 `json:"per_second"`
}

// A CertificateExpiry is the earliest expiry of a listener's certificates.
type CertificateExpiry struct {
	Listener string    `json:"listener"`
	Expires  time.Time `json:"expires"`
}

// ServerStats are the statistics of a Redis server. Counters start at 0 when the server starts.
type ServerStats struct {
	Shard  string `json:"shard"`
	Server string `json:"server"` // the server's address
	Role   string `json:"role"`   // RolePrimary or RoleReplica
	// Up reports whether the server responds. If not, Error says why, and DownSince since when. The numbers below are then
	// those of its last report, except that CPU, OpsPerSecond and Clients are 0.
	Up        bool      `json:"up"`
	Error     string    `json:"error,omitempty"`
	DownSince time.Time `json:"down_since,omitzero"`
	// Checked is when the node last queried the server.
	Checked time.Time `json:"checked"`
	Version string    `json:"version,omitempty"`
	// PingMS is the round-trip time of a PING. CPU is the average number of cores that the server has used since the last
	// check, -1 if it is not known.
	PingMS float64 `json:"ping_ms"`
	CPU    float64 `json:"cpu_cores"`
	// MemoryMaxBytes is 0 if the server's memory is not limited.
	MemoryBytes    int64 `json:"memory_bytes"`
	MemoryMaxBytes int64 `json:"memory_max_bytes"`
	// NetworkIn and NetworkOut count bytes.
	NetworkIn    int64 `json:"network_in_bytes"`
	NetworkOut   int64 `json:"network_out_bytes"`
	OpsPerSecond int64 `json:"operations_per_second"`
	Clients      int64 `json:"clients"`
	EvictedKeys  int64 `json:"evicted_keys"`
	// LagBytes is how far a replica is behind its primary. For a primary, it is the lag of its slowest replica.
	LagBytes int64 `json:"replication_lag_bytes"`
}

// The roles of servers.
const (
	RolePrimary = "primary"
	RoleReplica = "replica"
)

// The maximum lengths of the lists in HealthStats, and of their texts in bytes.
const (
	MaxFailingOpen  = 20
	MaxOpenShards   = 100
	MaxCertificates = 20
	MaxServers      = 200
	maxHealthText   = 512
)

// Clamp shortens lists and texts that are too long, so that a heartbeat is not refused because of them.
func (f *HealthStats) Clamp() {
	f.FailingOpen = f.FailingOpen[:min(len(f.FailingOpen), MaxFailingOpen)]
	f.OtherFallbacks = f.OtherFallbacks[:min(len(f.OtherFallbacks), MaxFailingOpen)]
	f.OpenShards = f.OpenShards[:min(len(f.OpenShards), MaxOpenShards)]
	f.Certificates = f.Certificates[:min(len(f.Certificates), MaxCertificates)]
	f.Servers = f.Servers[:min(len(f.Servers), MaxServers)]
	for i := range f.OpenShards {
		f.OpenShards[i] = clampText(f.OpenShards[i])
	}
	for i := range f.Servers {
		f.Servers[i].Error = clampText(f.Servers[i].Error)
	}
	f.StoreP99MS = min(max(f.StoreP99MS, 0), MaxStatMS)
}

func clampText(text string) string { return text[:min(len(text), maxHealthText)] }

// Problems returns the invalid statistics.
func (f *HealthStats) Problems() (list []source.Problem) {
	add := func(path, value, want string) {
		list = append(list, source.Problem{Path: path, Value: value, Want: want})
	}
	for _, l := range []struct {
		path       string
		count, max int
	}{
		{"failing_open", len(f.FailingOpen), MaxFailingOpen},
		{"other_fallbacks", len(f.OtherFallbacks), MaxFailingOpen},
		{"open_shards", len(f.OpenShards), MaxOpenShards},
		{"certificates", len(f.Certificates), MaxCertificates},
		{"servers", len(f.Servers), MaxServers},
	} {
		if l.count > l.max {
			add(l.path, fmt.Sprintf("%d elements", l.count), fmt.Sprintf("at most %d", l.max))
			return list
		}
	}
	checkText := func(path, value string) {
		if len(value) > maxHealthText {
			add(path, fmt.Sprintf("%.40q", value), fmt.Sprintf("at most %d bytes", maxHealthText))
		}
	}
	checkNumber := func(path string, value float64) {
		if math.IsNaN(value) || value < -1 || value > MaxStat { // -1 means that the CPU time is not known
			add(path, fmt.Sprint(value), fmt.Sprintf("-1 to %d", int64(MaxStat)))
		}
	}
	checkNumber("failing_open_rules", float64(f.FailingOpenRules))
	checkNumber("unlimited_per_second", f.UnlimitedPerSecond)
	checkNumber("store_p99_ms", f.StoreP99MS)
	checkNumber("memory_bytes", float64(f.MemoryBytes))
	checkNumber("memory_max_bytes", float64(f.MemoryMaxBytes))
	for i, r := range f.FailingOpen {
		checkText(fmt.Sprintf("failing_open[%d].rule", i), r.Rule)
		checkNumber(fmt.Sprintf("failing_open[%d].per_second", i), r.PerSecond)
	}
	for i, rule := range f.OtherFallbacks {
		checkText(fmt.Sprintf("other_fallbacks[%d]", i), rule)
	}
	for i, shard := range f.OpenShards {
		checkText(fmt.Sprintf("open_shards[%d]", i), shard)
	}
	for i, c := range f.Certificates {
		checkText(fmt.Sprintf("certificates[%d].listener", i), c.Listener)
	}
	for i := range f.Servers {
		s, path := &f.Servers[i], fmt.Sprintf("servers[%d]", i)
		for _, value := range []string{s.Shard, s.Server, s.Error, s.Version} {
			checkText(path, value)
		}
		if s.Role != RolePrimary && s.Role != RoleReplica {
			add(path+".role", fmt.Sprintf("%.40q", s.Role), "primary or replica")
		}
		for _, value := range []float64{
			s.PingMS, s.CPU, float64(s.MemoryBytes), float64(s.MemoryMaxBytes), float64(s.NetworkIn), float64(s.NetworkOut),
			float64(s.OpsPerSecond), float64(s.Clients), float64(s.EvictedKeys), float64(s.LagBytes),
		} {
			checkNumber(path, value)
		}
	}
	return list
}

// A primary is hot if it has more than hotOps operations per second, and more than twice the average of the others.
const hotOps = 5000

// IsHot reports whether a server has far more traffic than the others. primaries is their number, and total the
// operations per second of all of them.
func (s *ServerStats) IsHot(primaries int, total int64) bool {
	others, rest := int64(primaries-1), total-s.OpsPerSecond
	return s.Up && s.Role == RolePrimary && s.OpsPerSecond > hotOps && s.OpsPerSecond*others > 2*rest
}
