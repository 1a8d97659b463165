package control

import (
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate/rules/file/source"
)

// HealthFigures are figures of a node that alerts depend on. Rates are those since the last heartbeat.
type HealthFigures struct {
	// FailingOpen are the rules under which requests are admitted without a limit, because the store fails.
	FailingOpen []RuleRate `json:"failing_open,omitempty"`
	// OpenShards are the shards of the store whose circuit is open.
	OpenShards []string `json:"open_shards,omitempty"`
	// StoreP99MS is the time that 99 % of the calls to the store stay below. 0 if there were none.
	StoreP99MS float64 `json:"store_p99_ms,omitempty"`
	// MemoryBytes is the memory of the counters in the node, MemoryMaxBytes its maximum.
	MemoryBytes    int64 `json:"memory_bytes"`
	MemoryMaxBytes int64 `json:"memory_max_bytes"`
	// Certificates are the certificates of its listeners.
	Certificates []CertificateExpiry `json:"certificates,omitempty"`
	// Servers are the Redis servers, as this node sees them.
	Servers []ServerFigures `json:"servers,omitempty"`
}

// A RuleRate is a rate of requests under a rule.
type RuleRate struct {
	Rule      string  `json:"rule"`
	PerSecond float64 `json:"per_second"`
}

// A CertificateExpiry says when the first certificate of a listener expires.
type CertificateExpiry struct {
	Listener string    `json:"listener"`
	Expires  time.Time `json:"expires"`
}

// ServerFigures are figures of a Redis server. Counters start at 0 when the server starts.
type ServerFigures struct {
	Shard  string `json:"shard"`
	Server string `json:"server"` // its address
	Role   string `json:"role"`   // "primary" or "replica"
	// Up reports whether the server responds. If not, Error says why, and the other figures are 0.
	Up    bool   `json:"up"`
	Error string `json:"error,omitempty"`
	// Checked is when the server was asked.
	Checked time.Time `json:"checked"`
	Version string    `json:"version,omitempty"`
	// PingMS is the time of a response, CPU the cores that were used since the last check, -1 if that is not known.
	PingMS float64 `json:"ping_ms"`
	CPU    float64 `json:"cpu_cores"`
	// MemoryMaxBytes is 0 if memory is not bounded.
	MemoryBytes    int64 `json:"memory_bytes"`
	MemoryMaxBytes int64 `json:"memory_max_bytes"`
	// NetworkIn and NetworkOut are bytes.
	NetworkIn    int64 `json:"network_in_bytes"`
	NetworkOut   int64 `json:"network_out_bytes"`
	OpsPerSecond int64 `json:"operations_per_second"`
	Clients      int64 `json:"clients"`
	EvictedKeys  int64 `json:"evicted_keys"`
	// LagBytes is how far a replica is behind, or the slowest replica of a primary.
	LagBytes int64 `json:"replication_lag_bytes"`
}

// The roles of servers.
const (
	RolePrimary = "primary"
	RoleReplica = "replica"
)

// Limits of the lists in HealthFigures, and of the texts in them in bytes.
const (
	MaxFailingOpen  = 20
	MaxOpenShards   = 100
	MaxCertificates = 20
	MaxServers      = 200
	maxHealthText   = 512
)

// Clamp drops what is above the limits, so that a heartbeat is not refused because of it.
func (f *HealthFigures) Clamp() {
	f.FailingOpen = f.FailingOpen[:min(len(f.FailingOpen), MaxFailingOpen)]
	f.OpenShards = f.OpenShards[:min(len(f.OpenShards), MaxOpenShards)]
	f.Certificates = f.Certificates[:min(len(f.Certificates), MaxCertificates)]
	f.Servers = f.Servers[:min(len(f.Servers), MaxServers)]
	for i := range f.OpenShards {
		f.OpenShards[i] = clampText(f.OpenShards[i])
	}
	for i := range f.Servers {
		f.Servers[i].Error = clampText(f.Servers[i].Error)
	}
	f.StoreP99MS = min(max(f.StoreP99MS, 0), MaxFigureMS)
}

func clampText(text string) string { return text[:min(len(text), maxHealthText)] }

// Problems returns the invalid figures.
func (f *HealthFigures) Problems() (list []source.Problem) {
	add := func(path, value, want string) {
		list = append(list, source.Problem{Path: path, Value: value, Want: want})
	}
	for _, l := range []struct {
		path       string
		count, max int
	}{
		{"failing_open", len(f.FailingOpen), MaxFailingOpen},
		{"open_shards", len(f.OpenShards), MaxOpenShards},
		{"certificates", len(f.Certificates), MaxCertificates},
		{"servers", len(f.Servers), MaxServers},
	} {
		if l.count > l.max {
			add(l.path, fmt.Sprintf("%d elements", l.count), fmt.Sprintf("at most %d", l.max))
			return list
		}
	}
	text := func(path, value string) {
		if len(value) > maxHealthText {
			add(path, fmt.Sprintf("%.40q", value), fmt.Sprintf("at most %d bytes", maxHealthText))
		}
	}
	number := func(path string, value float64) {
		if math.IsNaN(value) || value < -1 || value > MaxFigure {
			add(path, fmt.Sprint(value), fmt.Sprintf("-1 to %d", int64(MaxFigure)))
		}
	}
	number("store_p99_ms", f.StoreP99MS)
	number("memory_bytes", float64(f.MemoryBytes))
	number("memory_max_bytes", float64(f.MemoryMaxBytes))
	for i, r := range f.FailingOpen {
		text(fmt.Sprintf("failing_open[%d].rule", i), r.Rule)
		number(fmt.Sprintf("failing_open[%d].per_second", i), r.PerSecond)
	}
	for i, shard := range f.OpenShards {
		text(fmt.Sprintf("open_shards[%d]", i), shard)
	}
	for i, c := range f.Certificates {
		text(fmt.Sprintf("certificates[%d].listener", i), c.Listener)
	}
	for i := range f.Servers {
		s, path := &f.Servers[i], fmt.Sprintf("servers[%d]", i)
		for _, value := range []string{s.Shard, s.Server, s.Error, s.Version} {
			text(path, value)
		}
		if s.Role != RolePrimary && s.Role != RoleReplica {
			add(path+".role", fmt.Sprintf("%.40q", s.Role), "primary or replica")
		}
		for _, value := range []float64{
			s.PingMS, s.CPU, float64(s.MemoryBytes), float64(s.MemoryMaxBytes), float64(s.NetworkIn), float64(s.NetworkOut),
			float64(s.OpsPerSecond), float64(s.Clients), float64(s.EvictedKeys), float64(s.LagBytes),
		} {
			number(path, value)
		}
	}
	return list
}

// A primary with more operations per second than hotOps and hotFactor times the average of all primaries is hot.
const (
	hotOps    = 5000
	hotFactor = 2
)

// IsHot reports whether a server has far more traffic than the others. total are the operations per second of all
// primaries.
func (s *ServerFigures) IsHot(primaries int, total int64) bool {
	return s.Up && s.Role == RolePrimary && s.OpsPerSecond > hotOps && s.OpsPerSecond*int64(primaries) > hotFactor*total
}
