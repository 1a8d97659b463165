package alerts

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// add adds a finding that a node reports. If several nodes report it, add keeps the largest value and its summary.
func (c *collector) add(condition *Condition, subject, node string, value float64, summary string) {
	id := condition.Name + "/" + subject
	i, known := c.index[id]
	if !known {
		i = len(c.list)
		c.index[id] = i
		c.list = append(c.list, Finding{Condition: condition, Subject: subject, Summary: summary, Value: value})
	}
	f := &c.list[i]
	if value > f.Value {
		f.Value, f.Summary = value, summary
	}
	if node != "" && !slices.Contains(f.Nodes, node) {
		f.Nodes = append(f.Nodes, node)
	}
}

// Find returns the conditions that hold.
func Find(in *Input, now time.Time) []Finding {
	c := &collector{index: map[string]int{}}
	unlimited := map[string]float64{}    // requests per second that are admitted without a limit, by rule
	unlimitedOn := map[string][]string{} // IDs of the nodes that admit them, by rule
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if silent := now.Sub(n.Seen); silent > silentAfter {
			c.add(NodeSilent, n.ID, n.ID, silent.Seconds(), fmt.Sprintf("The node %s sends no heartbeats", n.ID))
			continue
		}
		c.addNode(n, in.Revision, now)
		if n.Health == nil {
			continue
		}
		for _, r := range n.Health.FailingOpen {
			unlimited[r.Rule] += r.PerSecond
			unlimitedOn[r.Rule] = append(unlimitedOn[r.Rule], n.ID)
		}
	}
	for rule, perSecond := range unlimited {
		c.list = append(c.list, Finding{
			Condition: FailingOpen, Subject: rule, Nodes: unlimitedOn[rule], Value: perSecond,
			Summary: fmt.Sprintf("The rule %s admits %s requests/s without a limit", rule, rateText(perSecond)),
		})
	}
	c.addServers(Servers(in.Nodes, now))
	if in.isDenialSpike() {
		c.add(DenialSpike, "all requests", "", in.DeniedShare,
			fmt.Sprintf("%.0f %% of all requests are denied, %.0f %% before", 100*in.DeniedShare, 100*in.EarlierShare))
	}
	slices.SortFunc(c.list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Condition.Name, b.Condition.Name), cmp.Compare(a.Subject, b.Subject))
	})
	return c.list
}

// rateText formats a rate for a summary.
func rateText(perSecond float64) string {
	switch {
	case perSecond < 0.1:
		return "under 0.1"
	case perSecond < 10:
		return strings.TrimSuffix(strconv.FormatFloat(perSecond, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64)
}

func (in *Input) isDenialSpike() bool {
	return in.Comparable && in.Requests >= minDenialVolume &&
		in.DeniedShare > denialShare && in.DeniedShare > denialFactor*in.EarlierShare
}

// addNode adds the findings about one node.
func (c *collector) addNode(n *control.Node, revision int64, now time.Time) {
	switch {
	case n.Error != "":
		c.add(RulesStale, "rules", n.ID, 1, "Nodes refuse the latest rules, and have older ones in force")
	case n.FromDisk || n.Revision < revision:
		c.add(RulesStale, "rules", n.ID, 0, "Nodes do not have the latest rules in force")
	}
	if n.Fleet != nil {
		for i := range n.Fleet.Sync {
			s := &n.Fleet.Sync[i]
			switch {
			case !s.Up:
				c.add(SyncLag, s.Mode, n.ID, control.MaxStatMS/1000, fmt.Sprintf("Updates of the mode %s do not arrive", s.Mode))
			case s.LagMS > lagMS:
				c.add(SyncLag, s.Mode, n.ID, s.LagMS/1000,
					fmt.Sprintf("Updates of the mode %s arrive %.1f s late", s.Mode, s.LagMS/1000))
			}
		}
	}
	h := n.Health
	if h == nil {
		return
	}
	for _, shard := range h.OpenShards {
		c.add(BreakerOpen, shard, n.ID, 1, fmt.Sprintf("The circuit of the shard %s is open", shard))
	}
	if h.StoreP99MS > slowMS {
		c.add(StoreSlow, "redis", n.ID, h.StoreP99MS/1000,
			fmt.Sprintf("1 %% of the calls to the store take longer than %.0f ms", h.StoreP99MS))
	}
	c.addMemory("the nodes", n.ID, h.MemoryBytes, h.MemoryMaxBytes)
	for _, certificate := range h.Certificates {
		if left := certificate.Expires.Sub(now); left < expiresSoon {
			c.add(CertificateExpiring, certificate.Listener, n.ID, -left.Seconds(),
				fmt.Sprintf("A certificate of the listener %s expires at %s", certificate.Listener,
					certificate.Expires.UTC().Format(time.RFC3339)))
		}
	}
}

func (c *collector) addMemory(subject, node string, used, maximum int64) {
	if maximum > 0 && float64(used) > nearCap*float64(maximum) { // 0 means that the memory is not limited
		share := float64(used) / float64(maximum)
		c.add(MemoryNearCap, subject, node, share,
			fmt.Sprintf("The counters of %s use %.0f %% of their memory", subject, 100*share))
	}
}

// addServers adds the findings about Redis servers.
func (c *collector) addServers(list []control.ServerStats) {
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
			c.add(HotShard, s.Server, "", float64(s.OpsPerSecond),
				fmt.Sprintf("The Redis server %s has %d operations/s, over twice the average", s.Server, s.OpsPerSecond))
		}
	}
}

// Servers returns the latest statistics of each Redis server that any node has reported, sorted by shard, the primary
// first.
func Servers(nodes []control.Node, now time.Time) []control.ServerStats {
	latest := map[string]control.ServerStats{}
	for i := range nodes {
		if nodes[i].Health == nil || now.Sub(nodes[i].Seen) > maxServerAge {
			continue
		}
		for _, s := range nodes[i].Health.Servers {
			if known, ok := latest[s.Server]; !ok || s.Checked.After(known.Checked) {
				latest[s.Server] = s
			}
		}
	}
	list := make([]control.ServerStats, 0, len(latest))
	for _, s := range latest {
		if now.Sub(s.Checked) <= maxServerAge {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b control.ServerStats) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Server, b.Server))
	})
	return list
}
