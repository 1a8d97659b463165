package envoyrls

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// A counter counts the hits of one limit by result.
type counter struct {
	domain, descriptor         string
	within, near, over, shadow atomic.Int64
}

// Hits are the hits of one limit of the configuration, by result.
type Hits struct {
	// Domain is the limit's domain. Descriptor is the limit's path of keys and values, as in "user.path_/login", which is
	// the key user without a value, then the key path with the value /login. With detailed_metric and value_to_metric the
	// values come from requests.
	Domain, Descriptor string
	// Within counts hits within the limit when at least a fifth of the limit was left, and Near when less was left. Over
	// counts hits over the limit. Shadow counts hits over a limit in shadow_mode, which were allowed.
	Within, Near, Over, Shadow int64
}

// Names of counters that are not in the configuration.
const (
	overrideName = "(override)" // limits that are stated in requests
	otherName    = "(other)"    // detailed names that exceed MaxDetailedNames or maxDetailedNameBytes
)

// MaxDetailedNames is the maximum number of names that detailed_metric and value_to_metric create. It is needed because
// clients choose these names. Hits of further names are counted together.
const MaxDetailedNames = 10_000

// maxDetailedNameBytes is the maximum length of such a name, including its domain. Hits of longer names are counted
// together.
const maxDetailedNameBytes = 1 << 10

// detailedCounters has the counters whose names contain values from requests.
type detailedCounters struct {
	mu       sync.RWMutex
	counters map[string]*counter // by key: domain, a zero byte, and name
	others   map[string]*counter // by domain
}

// get returns the counter of a key, which begins with the domain. It does not keep its arguments.
func (d *detailedCounters) get(domain string, key []byte) *counter {
	d.mu.RLock()
	c := d.counters[string(key)]
	d.mu.RUnlock()
	if c != nil {
		return c
	}
	return d.add(domain, key)
}

func (d *detailedCounters) add(domain string, key []byte) *counter {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.counters[string(key)]; c != nil {
		return c
	}
	if len(d.counters) >= MaxDetailedNames || len(key) > maxDetailedNameBytes {
		return d.other(domain)
	}
	if d.counters == nil {
		d.counters = make(map[string]*counter)
	}
	kept := string(key)
	c := &counter{domain: kept[:len(domain)], descriptor: kept[len(domain)+1:]}
	d.counters[kept] = c
	return c
}

// other returns the domain's counter for names that exceed MaxDetailedNames or maxDetailedNameBytes.
func (d *detailedCounters) other(domain string) *counter {
	c := d.others[domain]
	if c == nil {
		if d.others == nil {
			d.others = make(map[string]*counter)
		}
		domain = strings.Clone(domain) // it may share the memory of a request
		c = &counter{domain: domain, descriptor: otherName}
		d.others[domain] = c
	}
	return c
}

// clear removes all counters.
func (d *detailedCounters) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.counters)
	clear(d.others)
}

func (d *detailedCounters) all() []*counter {
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

// keepCounters takes over the counters of limits in the previous table that have the same names.
func (t *table) keepCounters(previous *table) {
	if previous == nil {
		return
	}
	type name struct{ domain, descriptor string }
	counters := make(map[name]*counter, len(previous.limits))
	for _, l := range previous.limits {
		counters[name{l.counter.domain, l.counter.descriptor}] = l.counter
	}
	for _, l := range t.limits {
		if c := counters[name{l.counter.domain, l.counter.descriptor}]; c != nil {
			l.counter = c
		}
	}
}

// Stats are the counters of a Server.
type Stats struct {
	// Requests counts requests that got a response, and Over the responses with OVER_LIMIT. Refused counts requests that
	// failed because they were invalid or because there was no configuration.
	Requests, Over, Refused int64
	// Degraded counts descriptors that the failure policy decided because the store failed.
	Degraded int64
	// UnknownDomain counts requests of domains that are not in the configuration.
	UnknownDomain int64
	// Loads counts configurations that were loaded. LoadsRefused counts invalid configurations, after which the previous
	// one stayed in use.
	Loads, LoadsRefused int64
	// Limits has one element per domain and descriptor, sorted by both.
	Limits []Hits
}

// Stats returns the current counters.
func (s *Server) Stats() Stats {
	stats := Stats{
		Requests: s.counts.requests.Load(), Over: s.counts.over.Load(), Refused: s.counts.refused.Load(),
		Degraded: s.counts.degraded.Load(), UnknownDomain: s.counts.unknownDomain.Load(),
		Loads: s.counts.loads.Load(), LoadsRefused: s.counts.loadsRefused.Load(),
	}
	counters := append(s.detailed.all(), &s.overrides)
	if t := s.table.Load(); t != nil {
		for _, l := range t.limits {
			counters = append(counters, l.counter)
		}
	}
	for _, c := range counters {
		stats.Limits = append(stats.Limits, c.hits())
	}
	slices.SortFunc(stats.Limits, func(a, b Hits) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Descriptor, b.Descriptor))
	})
	stats.Limits = mergeEqual(stats.Limits)
	return stats
}

// mergeEqual merges adjacent elements with the same domain and descriptor. Values from requests can create equal
// descriptors. list must be sorted.
func mergeEqual(list []Hits) []Hits {
	merged := list[:0]
	for _, h := range list {
		if n := len(merged); n > 0 && merged[n-1].Domain == h.Domain && merged[n-1].Descriptor == h.Descriptor {
			last := &merged[n-1]
			last.Within += h.Within
			last.Near += h.Near
			last.Over += h.Over
			last.Shadow += h.Shadow
			continue
		}
		merged = append(merged, h)
	}
	return merged
}
