package alerts

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/server/control"
)

// The thresholds of conditions. The alert rules in deploy/prometheus have the same thresholds.
const (
	// silentAfter is the time without a heartbeat after which a node is silent. Its statistics are then ignored.
	silentAfter     = 30 * time.Second
	slowMS          = 10                 // 99th percentile of the duration of store calls
	lagMS           = 1000               // average age of updates
	nearCap         = 0.9                // share of the memory that is used
	expiresSoon     = 7 * 24 * time.Hour // time until a certificate expires
	denialShare     = 0.2                // share of denied requests
	denialFactor    = 3                  // DeniedShare divided by EarlierShare
	maxServerAge    = time.Minute        // age of the statistics of a Redis server
	minDenialVolume = 60                 // requests in the last minute
)

// An Input has the data by which Find evaluates conditions.
type Input struct {
	Nodes []control.Node
	// Revision is the latest revision of the rules.
	Revision int64
	// DeniedShare is the share of denied requests in the last minute. EarlierShare is their share in the hour before or,
	// if that has too few requests, in the day before. Requests is the number of requests in the last minute.
	DeniedShare, EarlierShare float64
	Requests                  uint64
	// Comparable reports whether EarlierShare is known. In a new service, it is not.
	Comparable bool
}

// A collector collects findings. It merges findings with the same condition and subject.
type collector struct {
	list  []Finding
	index map[string]int // index in list, by condition and subject
}

// add adds a finding that a node reports. If several nodes report it, add keeps the largest value and its texts.
func (c *collector) add(node string, found Finding) {
	id := found.id()
	i, known := c.index[id]
	if !known {
		i = len(c.list)
		c.index[id] = i
		c.list = append(c.list, found)
	}
	f := &c.list[i]
	if found.Value > f.Value {
		f.Value, f.Summary, f.Past = found.Value, found.Summary, found.Past
	}
	if node != "" && !slices.Contains(f.Nodes, node) {
		f.Nodes = append(f.Nodes, node)
	}
}

// Find returns the conditions that hold.
func Find(in *Input, now time.Time) []Finding {
	c := &collector{index: map[string]int{}}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if silent := now.Sub(n.Seen); silent > silentAfter {
			c.add(n.ID, Finding{
				Condition: NodeSilent, Subject: n.ID, Value: silent.Seconds(),
				Summary: fmt.Sprintf("The node %s sends no heartbeats", n.ID),
				Past:    fmt.Sprintf("The node %s sent no heartbeats", n.ID),
			})
			continue
		}
		c.addNode(n, in.Revision, now)
	}
	if f := FindFallback("", in.Nodes, now); f != nil && f.OpenRuleCount > 0 {
		c.list = append(c.list, f.finding())
	}
	c.addServers(Servers(in.Nodes, now))
	if in.isDenialSpike() {
		c.add("", Finding{
			Condition: DenialSpike, Subject: "all requests", Value: in.DeniedShare,
			Summary: fmt.Sprintf("%.0f %% of all requests are denied, %.0f %% before", 100*in.DeniedShare, 100*in.EarlierShare),
			Past:    fmt.Sprintf("%.0f %% of all requests were denied, %.0f %% before", 100*in.DeniedShare, 100*in.EarlierShare),
		})
	}
	slices.SortFunc(c.list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Condition.Name, b.Condition.Name), cmp.Compare(a.Subject, b.Subject))
	})
	return c.list
}

func (in *Input) isDenialSpike() bool {
	return in.Comparable && in.Requests >= minDenialVolume &&
		in.DeniedShare > denialShare && in.DeniedShare > denialFactor*in.EarlierShare
}

// addNode adds the findings about one node.
func (c *collector) addNode(n *control.Node, revision int64, now time.Time) {
	switch {
	case n.Error != "":
		c.add(n.ID, Finding{
			Condition: RulesStale, Subject: "rules", Value: 1,
			Summary: "Nodes refuse the latest rules, and have older ones in force",
			Past:    "Nodes refused the latest rules, and had older ones in force",
		})
	case n.FromDisk || n.Revision < revision:
		c.add(n.ID, Finding{
			Condition: RulesStale, Subject: "rules",
			Summary: "Nodes do not have the latest rules in force", Past: "Nodes did not have the latest rules in force",
		})
	}
	if n.Fleet != nil {
		for i := range n.Fleet.Sync {
			c.addSync(n.ID, &n.Fleet.Sync[i])
		}
	}
	h := n.Health
	if h == nil {
		return
	}
	for _, shard := range h.OpenShards {
		c.add(n.ID, Finding{
			Condition: BreakerOpen, Subject: shard, Value: 1,
			Summary: fmt.Sprintf("The circuit of the shard %s is open", shard),
			Past:    fmt.Sprintf("The circuit of the shard %s was open", shard),
		})
	}
	if h.StoreP99MS > slowMS {
		c.add(n.ID, Finding{
			Condition: StoreSlow, Subject: "redis", Value: h.StoreP99MS / 1000,
			Summary: fmt.Sprintf("1 %% of the calls to the store take longer than %.0f ms", h.StoreP99MS),
			Past:    fmt.Sprintf("1 %% of the calls to the store took longer than %.0f ms", h.StoreP99MS),
		})
	}
	c.addMemory("the nodes", n.ID, h.MemoryBytes, h.MemoryMaxBytes)
	for _, certificate := range h.Certificates {
		if left := certificate.Expires.Sub(now); left < expiresSoon {
			at := certificate.Expires.UTC().Format(time.RFC3339)
			c.add(n.ID, Finding{
				Condition: CertificateExpiring, Subject: certificate.Listener, Value: -left.Seconds(),
				Summary: fmt.Sprintf("A certificate of the listener %s expires at %s", certificate.Listener, at),
				Past:    fmt.Sprintf("A certificate of the listener %s was to expire at %s", certificate.Listener, at),
			})
		}
	}
}

// addSync adds the findings about one mode in which a node shares counters.
func (c *collector) addSync(node string, s *control.SyncStats) {
	switch {
	case !s.Up:
		c.add(node, Finding{
			Condition: SyncLag, Subject: s.Mode, Value: control.MaxStatMS / 1000,
			Summary: fmt.Sprintf("Updates of the mode %s do not arrive", s.Mode),
			Past:    fmt.Sprintf("Updates of the mode %s did not arrive", s.Mode),
		})
	case s.LagMS > lagMS:
		c.add(node, Finding{
			Condition: SyncLag, Subject: s.Mode, Value: s.LagMS / 1000,
			Summary: fmt.Sprintf("Updates of the mode %s arrive %.1f s late", s.Mode, s.LagMS/1000),
			Past:    fmt.Sprintf("Updates of the mode %s arrived %.1f s late", s.Mode, s.LagMS/1000),
		})
	}
}

func (c *collector) addMemory(subject, node string, used, maximum int64) {
	if maximum > 0 && float64(used) > nearCap*float64(maximum) { // 0 means that the memory is not limited
		share := float64(used) / float64(maximum)
		c.add(node, Finding{
			Condition: MemoryNearCap, Subject: subject, Value: share,
			Summary: fmt.Sprintf("The counters of %s use %.0f %% of their memory", subject, 100*share),
			Past:    fmt.Sprintf("The counters of %s used %.0f %% of their memory", subject, 100*share),
		})
	}
}

// addServers adds the findings about Redis servers.
func (c *collector) addServers(list []Server) {
	primaries, total := 0, int64(0)
	for i := range list {
		s := &list[i]
		if s.Up {
			c.addMemory(s.Server, "", s.MemoryBytes, s.MemoryMaxBytes)
		}
		if s.Up && s.Role == control.RolePrimary {
			primaries++
			total += s.OpsPerSecond
		}
	}
	for i := range list {
		s := &list[i]
		if s.IsHot(primaries, total) {
			c.add("", Finding{
				Condition: HotShard, Subject: s.Server, Value: float64(s.OpsPerSecond),
				Summary: fmt.Sprintf("The Redis server %s has %d operations/s, over twice the average", s.Server, s.OpsPerSecond),
				Past:    fmt.Sprintf("The Redis server %s had %d operations/s, over twice the average", s.Server, s.OpsPerSecond),
			})
		}
	}
}
