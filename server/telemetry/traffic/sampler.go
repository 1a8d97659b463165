package traffic

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/engine"
)

const (
	// sampleBytes is the default maximum memory of samples, excluding the two rings, which take about 0.5 MiB.
	sampleBytes = 6 << 20
	// chunkSeconds is the duration of a chunk, a part of a sample. A chunk is dropped when it is older than
	// maxAgeSeconds, and may be dropped when it is older than minAgeSeconds if memory is short.
	chunkSeconds  = 600
	maxAgeSeconds = 3 * 3600
	minAgeSeconds = 3600
	// maxPerMinute limits the requests of one client per minute whose times are stored.
	maxPerMinute = 6000
	// clientOverhead is the approximate memory of a sampled client without its requests. chunkOverhead is the approximate
	// memory of a chunk without its clients.
	clientOverhead = 200
	chunkOverhead  = 320
	// maxShift limits sampling.mask, which is doubled only while it is below 1<<maxShift.
	maxShift = 30
)

// sampling is the sampling rate of a rule, which every decision reads: one client in mask+1 is sampled.
type sampling struct{ mask atomic.Uint64 }

// sampledNow reports whether a client with this key is sampled.
func (s *sampling) sampledNow(key uint64) bool { return key&s.mask.Load() == 0 }

// halve halves the share of clients that are sampled.
func (s *sampling) halve() {
	if mask := s.mask.Load(); mask < 1<<maxShift {
		s.mask.Store(mask<<1 | 1)
	}
}

// double doubles the share of clients that are sampled, unless all are.
func (s *sampling) double() { s.mask.Store(s.mask.Load() >> 1) }

// A sampleChunk has the requests of sampled clients in chunkSeconds.
type sampleChunk struct {
	start   int64  // Unix time
	mask    uint64 // one client in mask+1 has all its requests in the chunk
	clients map[uint64]*chunkClient
}

// A chunkClient has the requests of a client in a chunk.
type chunkClient struct {
	clientValues
	// times has a varint for each request: the time since the previous request in µs, shifted left by one bit. If the
	// lowest bit is 1, the cost follows as another varint. Otherwise the cost is 1.
	times []byte
	last  int64 // time of the last request in times, in µs
	// counts has two varints for each second with requests: the number of seconds since the previous entry, and the
	// number of requests. Only held clients have counts.
	counts   []byte
	lastSec  int64 // last second in counts
	held     bool  // in the sample because of many requests, even if the client is not sampled at random: see heldFrom
	overflow bool  // the client sent more than maxPerMinute, so times is incomplete
}

// A ruleSample is the sample of one rule.
type ruleSample struct {
	chunks []*sampleChunk         // oldest first
	bytes  int                    // approximate memory
	held   map[uint64]*heldClient // by key
}

// A sampler samples the requests of clients, per rule. The mutex of the Recorder guards all fields except the rings.
type sampler struct {
	now      func() time.Time
	seed     uint64
	maxBytes int
	current  atomic.Pointer[sampleRing]
	previous *sampleRing
	rules    map[*ruleStats]*ruleSample
	bytes    int
	peak     uint32 // most sampled requests in a second of the current chunk
}

func newSampler(seed uint64, maxBytes int, now func() time.Time) *sampler {
	s := &sampler{now: now, seed: seed, maxBytes: maxBytes, previous: &sampleRing{}, rules: map[*ruleStats]*ruleSample{}}
	s.current.Store(&sampleRing{start: now().UnixMicro()})
	return s
}

// put samples a request of the client with a key.
func (s *sampler) put(stats *ruleStats, key uint64, c *engine.ClientView) {
	ring := s.current.Load()
	if ring.isFull() || !ring.put(stats, key, s.now().UnixMicro(), c) {
		stats.markOverflowed()
	}
}

// markOverflowed makes the next tick sample fewer clients of the rule.
func (s *ruleStats) markOverflowed() {
	if !s.overflowed.Load() { // reading is cheaper when many goroutines do it
		s.overflowed.Store(true)
	}
}

// tick moves the requests of the previous ring into the chunks, and swaps the rings. It does not move those of the
// current ring, because that ring refuses requests while it is drained.
func (s *sampler) tick(unix int64) {
	ring := s.previous
	ring.drain(s.add)
	ring.start = s.now().UnixMicro()
	s.previous = s.current.Swap(ring)
	s.peak = max(s.peak, s.previous.next.Load())
	for stats, r := range s.rules {
		if stats.overflowed.Swap(false) {
			// Sample so few clients that the requests of a second fit into a ring.
			for range s.previous.halvings() {
				stats.sampling.halve()
			}
			s.thin(stats, r)
		}
		for len(r.chunks) > 0 && r.chunks[0].start+chunkSeconds < unix-maxAgeSeconds {
			s.drop(r)
		}
		if len(r.chunks) == 0 && len(r.held) == 0 {
			delete(s.rules, stats)
		}
	}
	for s.bytes > s.maxBytes {
		if !s.shrink(unix) {
			break
		}
	}
	// At the start of each chunk, sample twice as many clients if there is room: the requests of the busiest second took
	// less than half of a ring, and the samples less than a quarter of their memory.
	if unix%chunkSeconds == 0 {
		if s.peak < ringSize/2 && s.bytes < s.maxBytes/4 {
			for stats := range s.rules {
				stats.sampling.double()
			}
		}
		s.peak = 0
	}
}

// chunk returns the sample of a rule and its chunk for a time. It creates them if needed.
func (s *sampler) chunk(stats *ruleStats, unix int64) (*ruleSample, *sampleChunk) {
	r := s.rules[stats]
	if r == nil {
		r = &ruleSample{held: map[uint64]*heldClient{}}
		s.rules[stats] = r
	}
	start := unix - unix%chunkSeconds
	if n := len(r.chunks); n > 0 && r.chunks[n-1].start >= start {
		return r, r.chunks[n-1]
	}
	chunk := &sampleChunk{start: start, mask: stats.sampling.mask.Load(), clients: map[uint64]*chunkClient{}}
	r.chunks = append(r.chunks, chunk)
	s.account(r, chunkOverhead)
	return r, chunk
}

func (s *sampler) client(r *ruleSample, chunk *sampleChunk, key uint64, v *clientValues) *chunkClient {
	c := chunk.clients[key]
	if c == nil {
		c = &chunkClient{clientValues: *v, last: chunk.start * 1e6, lastSec: chunk.start}
		chunk.clients[key] = c
		s.account(r, clientOverhead)
	}
	return c
}

// account adds n bytes, which may be negative, to the memory of a rule and of all rules.
func (s *sampler) account(r *ruleSample, n int) {
	r.bytes += n
	s.bytes += n
}

// add adds a sampled request.
func (s *sampler) add(e *sampledRequest) {
	r, chunk := s.chunk(e.stats, e.at/1e6)
	// A chunk must have all requests of its clients, so it has only clients that were sampled during its whole time.
	chunk.mask = max(chunk.mask, e.stats.sampling.mask.Load())
	if e.key&chunk.mask != 0 {
		return
	}
	c := s.client(r, chunk, e.key, &e.clientValues)
	before := cap(c.times)
	delta := max(e.at-c.last, 0)
	if e.cost == 1 {
		c.times = binary.AppendUvarint(c.times, uint64(delta)<<1)
	} else {
		c.times = binary.AppendUvarint(c.times, uint64(delta)<<1|1)
		c.times = binary.AppendUvarint(c.times, uint64(max(e.cost, 0)))
	}
	c.last += delta
	s.account(r, cap(c.times)-before)
}

// thin drops the clients that are no longer sampled. Of held clients, it drops only the times.
func (s *sampler) thin(stats *ruleStats, r *ruleSample) {
	mask := stats.sampling.mask.Load()
	for _, chunk := range r.chunks {
		chunk.mask = max(chunk.mask, mask)
		for key, c := range chunk.clients {
			if key&mask == 0 {
				continue
			}
			if c.held {
				s.account(r, -cap(c.times))
				c.times = nil
				continue
			}
			s.account(r, -c.bytes())
			delete(chunk.clients, key)
		}
	}
}

func (c *chunkClient) bytes() int { return clientOverhead + cap(c.times) + cap(c.counts) }

// drop drops the oldest chunk of a rule.
func (s *sampler) drop(r *ruleSample) {
	for _, c := range r.chunks[0].clients {
		s.account(r, -c.bytes())
	}
	s.account(r, -chunkOverhead)
	r.chunks = slices.Delete(r.chunks, 0, 1)
}

// shrink frees memory. It drops the oldest chunks if they are old enough, or if sampling fewer clients would not help.
// Otherwise it drops half of the clients of the rule with the largest sample, or of all rules if there are many. It
// returns false if there is nothing to free.
func (s *sampler) shrink(unix int64) bool {
	oldest, largest := unix, (*ruleStats)(nil)
	for stats, r := range s.rules {
		if len(r.chunks) > 0 {
			oldest = min(oldest, r.chunks[0].start)
		}
		if largest == nil || r.bytes > s.rules[largest].bytes {
			largest = stats
		}
	}
	if largest == nil {
		return false
	}
	manyRules := s.rules[largest].bytes < s.maxBytes/100 // even the largest of them has less than 1 %
	switch {
	case oldest+chunkSeconds <= unix &&
		(oldest+chunkSeconds < unix-minAgeSeconds || manyRules || s.rules[largest].mostlyHeld()):
		for _, r := range s.rules {
			if len(r.chunks) > 0 && r.chunks[0].start == oldest {
				s.drop(r)
			}
		}
	case largest.sampling.mask.Load() >= 1<<maxShift:
		return false
	default:
		for stats, r := range s.rules {
			if manyRules || stats == largest {
				stats.sampling.halve()
				s.thin(stats, r)
			}
		}
	}
	return true
}

// mostlyHeld reports whether held clients use most of the memory.
func (r *ruleSample) mostlyHeld() bool {
	held := 0
	for _, chunk := range r.chunks {
		for _, c := range chunk.clients {
			if c.held {
				held += c.bytes()
			}
		}
	}
	return 2*held > r.bytes
}

// erase removes the clients that meet a condition, including their requests in both rings. A request that is added to a
// ring while it is drained is not sampled.
func (s *sampler) erase(condition func(*countedClient) bool) {
	ring := s.previous
	ring.drain(s.add)
	ring.start = s.now().UnixMicro()
	s.previous = s.current.Swap(ring)
	s.previous.drain(s.add)
	for stats, r := range s.rules {
		for _, chunk := range r.chunks {
			maps.DeleteFunc(chunk.clients, func(_ uint64, c *chunkClient) bool {
				if client := c.client(stats); !condition(&client) {
					return false
				}
				s.account(r, -c.bytes())
				return true
			})
		}
	}
}

// client returns the client of a rule that has these values, without counts.
func (v *clientValues) client(stats *ruleStats) countedClient {
	return countedClient{rule: stats, values: string(v.values[:v.size]), byIP: v.byIP, truncated: v.truncated}
}

// find returns the sample of a rule, nil if there is none.
func (s *sampler) find(rule string) (*ruleStats, *ruleSample) {
	for stats, r := range s.rules {
		if stats.id == rule {
			return stats, r
		}
	}
	return nil, nil
}

// sortedKeys returns the keys of the clients of all chunks.
func sortedKeys(chunks []*sampleChunk) []uint64 {
	keys := map[uint64]bool{}
	for _, chunk := range chunks {
		for key := range chunk.clients {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}
