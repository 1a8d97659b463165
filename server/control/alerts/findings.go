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

// The thresholds, as in deploy/prometheus.
const (
	// silentAfter is the time without a heartbeat after which a node does not count any more. It is silent then.
	silentAfter     = 30 * time.Second
	slowMS          = 10
	lagMS           = 1000
	nearCap         = 0.9
	expiresSoon     = 7 * 24 * time.Hour
	denialShare     = 0.2
	denialFactor    = 3
	maxServerAge    = time.Minute
	minDenialVolume = 60 // requests in the last minute
)

// Input is what conditions depend on.
type Input struct {
	Nodes []control.Node
	// Revision is the latest revision of the rules.
	Revision int64
	// DeniedShare is the share of denied requests of the last minute, EarlierShare that of the hour before or, if it has
	// no requests, of the day before. Requests is the number of requests in the last minute.
	DeniedShare, EarlierShare float64
	Requests                  uint64
	// Comparable reports whether EarlierShare is known. A new service has nothing to compare a minute with.
	Comparable bool
}

// collector gathers findings by condition and subject.
type collector struct {
	list  []Finding
	index map[string]int
}

// add adds a finding of a node, with the largest value of all nodes.
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
	open := map[string]float64{} // requests per second by rule
	openNodes := map[string][]string{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if silent := now.Sub(n.Seen); silent > silentAfter {
			c.add(NodeSilent, n.ID, n.ID, silent.Seconds(), fmt.Sprintf("The node %s sends no heartbeats", n.ID))
			continue
		}
		c.node(n, in.Revision, now)
		if n.Health == nil {
			continue
		}
		for _, r := range n.Health.FailingOpen {
			open[r.Rule] += r.PerSecond
			openNodes[r.Rule] = append(openNodes[r.Rule], n.ID)
		}
	}
	for rule, perSecond := range open {
		c.list = append(c.list, Finding{
			Condition: FailingOpen, Subject: rule, Nodes: openNodes[rule], Value: perSecond,
			Summary: fmt.Sprintf("The rule %s admits %s requests/s without a limit", rule, rateText(perSecond)),
		})
	}
	c.servers(Servers(in.Nodes, now))
	if in.isDenialSpike() {
		c.add(DenialSpike, "all requests", "", in.DeniedShare,
			fmt.Sprintf("%.0f %% of all requests are denied, %.0f %% before", 100*in.DeniedShare, 100*in.EarlierShare))
	}
	slices.SortFunc(c.list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Condition.Name, b.Condition.Name), cmp.Compare(a.Subject, b.Subject))
	})
	return c.list
}

// rateText formats a rate for a person.
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

// node adds what one node reports.
func (c *collector) node(n *control.Node, revision int64, now time.Time) {
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
				c.add(SyncLag, s.Mode, n.ID, control.MaxFigureMS/1000, fmt.Sprintf("Updates of the mode %s do not arrive", s.Mode))
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
	c.memory("the nodes", n.ID, h.MemoryBytes, h.MemoryMaxBytes)
	for _, certificate := range h.Certificates {
		if left := certificate.Expires.Sub(now); left < expiresSoon {
			c.add(CertificateExpiring, certificate.Listener, n.ID, -left.Seconds(),
				fmt.Sprintf("A certificate of the listener %s expires at %s", certificate.Listener,
					certificate.Expires.UTC().Format(time.RFC3339)))
		}
	}
}

func (c *collector) memory(subject, node string, used, most int64) {
	if most > 0 && float64(used) > nearCap*float64(most) {
		share := float64(used) / float64(most)
		c.add(MemoryNearCap, subject, node, share, fmt.Sprintf("The counters of %s use %.0f %% of their memory", subject, 100*share))
	}
}

// servers adds what Redis servers report.
func (c *collector) servers(list []control.ServerFigures) {
	primaries, total := 0, int64(0)
	for i := range list {
		s := &list[i]
		if s.Up {
			c.memory(s.Server, "", s.MemoryBytes, s.MemoryMaxBytes)
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

// Servers returns the latest figures of each Redis server, by shard, the primary first.
func Servers(nodes []control.Node, now time.Time) []control.ServerFigures {
	latest := map[string]control.ServerFigures{}
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
	list := make([]control.ServerFigures, 0, len(latest))
	for _, s := range latest {
		if now.Sub(s.Checked) <= maxServerAge {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b control.ServerFigures) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Server, b.Server))
	})
	return list
}
