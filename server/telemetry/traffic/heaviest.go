package traffic

import (
	"cmp"
	"maps"
	"slices"

	"github.com/headgate/headgate/rules"
)

// idleAfter is the time in seconds after which a rule without requests loses its table.
const idleAfter = 300

// rotate returns the clients of the minute that ended, and empties the tables for the next minute.
func (r *Recorder) rotate() []ClientCount {
	list := r.clients(true)
	for _, stats := range r.index.Load().byID {
		t := stats.clients.Load()
		if t != nil && (len(t.slots) != r.size || r.minute-stats.used >= idleAfter) { // sizes change with the number of rules
			r.dropTable(stats)
		}
	}
	for _, stats := range r.removed {
		r.dropTable(stats)
	}
	r.removed = nil
	return list
}

// clients returns the clients of the minute with the most requests and those with the most denials. If end is true, it
// then empties the tables. The few requests that are counted while a table is read and emptied are lost.
func (r *Recorder) clients(end bool) []ClientCount {
	type key struct {
		rule   *ruleStats
		values string
	}
	merged := map[key]*countedClient{}
	add := func(t *table, most int) {
		list := t.heaviest(most)
		if end {
			t.reset()
		}
		for i := range list {
			c := &list[i]
			if known := merged[key{c.rule, c.values}]; known != nil { // the rule got its table in this minute
				known.requests += c.requests
				known.denied += c.denied
				known.missed += c.missed
				known.oneIn = max(known.oneIn, c.oneIn)
				continue
			}
			merged[key{c.rule, c.values}] = c
		}
	}
	if t := r.shared.Load(); t != nil && t.used.Load() {
		add(t, maxReported)
	}
	for _, stats := range slices.AppendSeq(slices.Clone(r.removed), maps.Values(r.index.Load().byID)) {
		if t := stats.clients.Load(); t != nil && t.used.Load() {
			add(t, maxPerRule)
		}
	}
	list := make([]countedClient, 0, len(merged))
	for _, c := range merged {
		list = append(list, *c)
	}
	sums := clientSums{}
	for _, c := range heaviest(list, maxReported) {
		sums.add(&ClientCount{
			Client: r.name(&c), Rule: c.rule.id, Requests: uint64(c.requests) + uint64(c.missed),
			Denied: uint64(c.denied), Error: c.error(), Shadow: c.shadow,
		})
	}
	return sums.list()
}

// A nameKey is what the name of a client depends on.
type nameKey struct {
	rule            *rules.Rule
	values          string
	byIP, truncated bool
}

// maxNames bounds the names that are kept for the next Reports: those of two Reports.
const maxNames = 4 * maxReported

// name returns the name of a client. Most clients of a Report were in the one before, and hashing takes long.
func (r *Recorder) name(c *countedClient) RawClient {
	key := nameKey{c.rule.rule.Load(), c.values, c.byIP, c.truncated}
	name, known := r.names[key]
	if !known {
		if len(r.names) >= maxNames || r.names == nil {
			r.names = map[nameKey]RawClient{}
		}
		name = r.options.Namer.name(c)
		r.names[key] = name
	}
	return name
}

// heaviest returns at most 2n clients: n with the most requests, and n others with the most denials. It does not copy
// or sort the other clients, because a table has thousands.
func (t *table) heaviest(n int) []countedClient {
	var byRequests, byDenied []uint64 // counts, each with the index of its slot in the lower half
	for at := range uint64(len(t.buckets)) {
		b := &t.buckets[at]
		for i := range ways {
			if b.fingerprints[i].Load() == 0 {
				continue
			}
			// The weight is at least the number of requests, and needs no access to the slot.
			weight, denied := b.weights[i].Load(), b.denied[i].Load()
			if len(byRequests) == n && denied == 0 && uint64(weight) < byRequests[n-1]>>32 {
				continue
			}
			requests := t.requestsAt(at, i) + t.missedRequests(at, i)
			index := at*ways + uint64(i)
			list, other := withLargest(byRequests, n, uint64(requests)<<32|index)
			byRequests = list
			if index = other & (1<<32 - 1); other != 0 {
				denied = t.buckets[index/ways].denied[index%ways].Load()
			}
			if other != 0 && denied > 0 {
				byDenied, _ = withLargest(byDenied, n, uint64(denied)<<32|index)
			}
		}
	}
	list := make([]countedClient, 0, len(byRequests)+len(byDenied))
	for _, count := range slices.Concat(byRequests, byDenied) {
		index := count & (1<<32 - 1)
		if c, ok := t.clientAt(index/ways, int(index%ways)); ok {
			list = append(list, c)
		}
	}
	return list
}

// withLargest adds a count to a list of the n largest ones, the largest first. It returns the one that is then not in
// the list, 0 if all are.
func withLargest(list []uint64, n int, count uint64) (_ []uint64, other uint64) {
	if len(list) == n {
		if other = list[n-1]; count < other {
			return list, count
		}
		list = list[:n-1]
	}
	at, _ := slices.BinarySearchFunc(list, count, func(c, count uint64) int { return cmp.Compare(count, c) })
	return slices.Insert(list, at, count), other
}

// clientAt returns the i-th client of a bucket. ok is false if there is none.
func (t *table) clientAt(at uint64, i int) (_ countedClient, ok bool) {
	t.lock(at)
	defer t.unlock(at)
	s := t.slotAt(at, i)
	if s.rule == nil {
		return countedClient{}, false
	}
	c := s.client(s.rule)
	c.shadow, c.denied = s.shadow, t.buckets[at].denied[i].Load()
	c.requests, c.missed = t.requestsAt(at, i), t.missedRequests(at, i)
	c.oneIn = t.oneIn.Load()
	return c, true
}

// heaviest returns at most 2n clients: n with the most requests, and n others with the most denials.
func heaviest(list []countedClient, n int) []countedClient {
	if len(list) <= n {
		return list
	}
	byDenied := func(a, b countedClient) int { return cmp.Compare(b.denied, a.denied) }
	slices.SortFunc(list, func(a, b countedClient) int {
		return cmp.Compare(b.requests+b.missed, a.requests+a.missed)
	})
	rest := list[n:]
	slices.SortFunc(rest, byDenied)
	if len(rest) > n {
		rest = rest[:n]
	}
	for len(rest) > 0 && rest[len(rest)-1].denied == 0 {
		rest = rest[:len(rest)-1]
	}
	return list[:n+len(rest)]
}

// The maximum number of clients with the most requests in a Report: in total, and of one rule. In addition, there are
// up to as many clients with the most denials.
const (
	maxReported = 500
	maxPerRule  = 50
)

// Erase removes clients from the tables of this minute and from the samples.
func (r *Recorder) Erase(clients ...ErasedClient) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = nil
	isErased := func(c *countedClient) bool { return r.options.Namer.IsErased(r.options.Namer.name(c), clients) }
	for _, t := range r.tables() {
		t.erase(isErased)
	}
	if r.sampler != nil {
		r.sampler.erase(isErased)
	}
}
