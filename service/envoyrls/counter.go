package envoyrls

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// A counter counts the hits of a limit.
type counter struct {
	domain, descriptor         string
	within, near, over, shadow atomic.Int64
}

// Hits is what became of the hits of one limit of the configuration.
type Hits struct {
	// Domain is the limit's, and Descriptor how the keys and values of the configuration lead to it: "user.path_/login". With
	// detailed_metric and value_to_metric values are those of requests.
	Domain, Descriptor string
	// Within were within the limit, Near too but when less than a fifth of it was left. Over were over it, and so were
	// Shadow, which passed because the limit is in shadow_mode.
	Within, Near, Over, Shadow int64
}

// What is counted under names that are not in the configuration.
const (
	overrideName = "(override)" // limits that requests bring along
	otherName    = "(other)"    // those whose values stand in names, once there are too many
)

// MaxDetailed is how many names detailed_metric and value_to_metric can make. Clients choose them, so they are bounded; more
// are counted as one.
const MaxDetailed = 10_000

// maxDetailedName is how long such a name may be, in bytes, with its domain. Longer ones are too many as well.
const maxDetailedName = 1 << 10

// detailed are counters of names that are made of what requests say.
type detailed struct {
	mu       sync.RWMutex
	counters map[string]*counter // by domain, a zero, and name
	others   map[string]*counter // by domain
}

// get returns the counter of a name. The texts are only lent.
func (d *detailed) get(domain string, name []byte) *counter {
	d.mu.RLock()
	c := d.counters[string(name)]
	d.mu.RUnlock()
	if c != nil {
		return c
	}
	return d.add(domain, name)
}

func (d *detailed) add(domain string, name []byte) *counter {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.counters[string(name)]; c != nil {
		return c
	}
	if len(d.counters) >= MaxDetailed || len(name) > maxDetailedName {
		return d.other(domain)
	}
	if d.counters == nil {
		d.counters = make(map[string]*counter)
	}
	whole := string(name)
	c := &counter{domain: whole[:len(domain)], descriptor: whole[len(domain)+1:]}
	d.counters[whole] = c
	return c
}

// other returns the counter of a domain that the configuration has, for names that are too many.
func (d *detailed) other(domain string) *counter {
	c := d.others[domain]
	if c == nil {
		if d.others == nil {
			d.others = make(map[string]*counter)
		}
		domain := string([]byte(domain))
		c = &counter{domain: domain, descriptor: otherName}
		d.others[domain] = c
	}
	return c
}

// clear forgets all names.
func (d *detailed) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.counters)
	clear(d.others)
}

// all returns all counters.
func (d *detailed) all() []*counter {
	d.mu.RLock()
	defer d.mu.RUnlock()
	list := make([]*counter, 0, len(d.counters)+len(d.others))
	for _, c := range d.counters {
		list = append(list, c)
	}
	for _, c := range d.others {
		list = append(list, c)
	}
	return list
}

func (c *counter) hits() Hits {
	return Hits{
		Domain: c.domain, Descriptor: c.descriptor,
		Within: c.within.Load(), Near: c.near.Load(), Over: c.over.Load(), Shadow: c.shadow.Load(),
	}
}

// inherit has limits go on with the counters of those that had their names before.
func (t *table) inherit(from *table) {
	if from == nil {
		return
	}
	type name struct{ domain, descriptor string }
	before := make(map[name]*counter, len(from.limits))
	for _, l := range from.limits {
		before[name{l.metric.domain, l.metric.descriptor}] = l.metric
	}
	for _, l := range t.limits {
		if c := before[name{l.metric.domain, l.metric.descriptor}]; c != nil {
			l.metric = c
		}
	}
}

// Stats is what a Server has counted.
type Stats struct {
	// Requests were answered, of which Over with OVER_LIMIT. Refused were not: they were wrong, or there is no configuration.
	Requests, Over, Refused int64
	// Degraded counts descriptors that a policy decided because the store could not be asked.
	Degraded int64
	// UnknownDomain counts requests of domains that are not in the configuration.
	UnknownDomain int64
	// Loads is how often a configuration came into force, and LoadsRefused how often one was wrong, so that the one before
	// stayed.
	Loads, LoadsRefused int64
	// Limits are those of the configuration, each name once and in order.
	Limits []Hits
}

// Stats returns what was counted.
func (s *Server) Stats() Stats {
	stats := Stats{
		Requests: s.counts.requests.Load(), Over: s.counts.over.Load(), Refused: s.counts.refused.Load(),
		Degraded: s.counts.degraded.Load(), UnknownDomain: s.counts.unknownDomain.Load(),
		Loads: s.counts.loads.Load(), LoadsRefused: s.counts.loadsRefused.Load(),
	}
	counters := append(s.detailed.all(), &s.overrides)
	if t := s.table.Load(); t != nil {
		for _, l := range t.limits {
			counters = append(counters, l.metric)
		}
	}
	for _, c := range counters {
		stats.Limits = append(stats.Limits, c.hits())
	}
	slices.SortFunc(stats.Limits, func(a, b Hits) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Descriptor, b.Descriptor))
	})
	stats.Limits = sum(stats.Limits)
	return stats
}

// sum makes one of those with the same name, which values of requests can lead to. They are in order.
func sum(list []Hits) []Hits {
	made := list[:0]
	for _, h := range list {
		if n := len(made); n > 0 && made[n-1].Domain == h.Domain && made[n-1].Descriptor == h.Descriptor {
			last := &made[n-1]
			last.Within, last.Near, last.Over, last.Shadow = last.Within+h.Within, last.Near+h.Near, last.Over+h.Over, last.Shadow+h.Shadow
			continue
		}
		made = append(made, h)
	}
	return made
}
