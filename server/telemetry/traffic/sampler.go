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
	// sampleBytes is the default maximum memory of samples, without about 0.5 MiB for the requests of two seconds.
	sampleBytes = 6 << 20
	// chunkSeconds is the duration of a chunk, a part of a sample. A chunk is dropped when it is older than sampleKeep.
	// If memory is short, it is dropped when it is older than sampleLeast.
	chunkSeconds = 600
	sampleKeep   = 3 * 3600
	sampleLeast  = 3600
	// maxPerMinute is the maximum number of requests of a client in a minute whose times are sampled.
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

func (s *sampling) shift(up bool) {
	mask := s.mask.Load()
	switch {
	case up && mask < 1<<maxShift:
		s.mask.Store(mask<<1 | 1)
	case !up:
		s.mask.Store(mask >> 1)
	}
}

// A sampleChunk has the requests of sampled clients in chunkSeconds.
type sampleChunk struct {
	start   int64 // Unix time
	mask    uint64
	clients map[uint64]*chunkClient
}

// A chunkClient has the requests of a client in a chunk.
type chunkClient struct {
	slotValues
	times    []byte // varints: time since the last request in µs · 2, + 1 if the cost follows
	last     int64  // time of the last request in times, in µs
	counts   []byte // only of held clients; varints: seconds since the last second, number of requests
	lastSec  int64  // last second in counts
	held     bool
	overflow bool // the client sent more than maxPerMinute, so times is incomplete
}

// A ruleSample is the sample of one rule.
type ruleSample struct {
	chunks []*sampleChunk // oldest first
	bytes  int
	held   map[uint64]*heldClient
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
	if (ring.isFull() || !ring.put(stats, key, s.now().UnixMicro(), c)) && !stats.overflowed.Load() {
		stats.overflowed.Store(true)
	}
}

// tick moves the requests of the previous ring into the chunks, and exchanges the rings. It does not move those of the
// current ring, because requests may still be added.
func (s *sampler) tick(unix int64) {
	ring := s.previous
	ring.drain(s.add)
	ring.start = s.now().UnixMicro()
	s.previous = s.current.Swap(ring)
	s.peak = max(s.peak, s.previous.next.Load())
	for stats, r := range s.rules {
		if stats.overflowed.Swap(false) {
			for range s.previous.shifts() {
				stats.sampling.shift(true)
			}
			s.thin(stats, r)
		}
		for len(r.chunks) > 0 && r.chunks[0].start+chunkSeconds < unix-sampleKeep {
			s.drop(r)
		}
		if len(r.chunks) == 0 && len(r.held) == 0 {
			delete(s.rules, stats)
		}
	}
	for s.bytes > s.maxBytes && s.shrink(unix) {
	}
	if unix%chunkSeconds == 0 {
		if s.peak < ringSize/2 && s.bytes < s.maxBytes/4 {
			for stats := range s.rules {
				stats.sampling.shift(false)
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
	k := &sampleChunk{start: start, mask: stats.sampling.mask.Load(), clients: map[uint64]*chunkClient{}}
	r.chunks = append(r.chunks, k)
	s.grow(r, chunkOverhead)
	return r, k
}

func (s *sampler) client(r *ruleSample, k *sampleChunk, key uint64, v *slotValues) *chunkClient {
	c := k.clients[key]
	if c == nil {
		c = &chunkClient{slotValues: *v, last: k.start * 1e6, lastSec: k.start}
		k.clients[key] = c
		s.grow(r, clientOverhead)
	}
	return c
}

func (s *sampler) grow(r *ruleSample, n int) {
	r.bytes += n
	s.bytes += n
}

// add adds a sampled request.
func (s *sampler) add(e *sampledRequest) {
	r, k := s.chunk(e.stats, e.at/1e6)
	k.mask = max(k.mask, e.stats.sampling.mask.Load())
	if e.key&k.mask != 0 {
		return
	}
	c := s.client(r, k, e.key, &e.slotValues)
	before := cap(c.times)
	delta := max(e.at-c.last, 0)
	if e.cost == 1 {
		c.times = binary.AppendUvarint(c.times, uint64(delta)<<1)
	} else {
		c.times = binary.AppendUvarint(c.times, uint64(delta)<<1|1)
		c.times = binary.AppendUvarint(c.times, uint64(max(e.cost, 0)))
	}
	c.last += delta
	s.grow(r, cap(c.times)-before)
}

// thin drops the clients that are no longer sampled.
func (s *sampler) thin(stats *ruleStats, r *ruleSample) {
	mask := stats.sampling.mask.Load()
	for _, k := range r.chunks {
		k.mask = max(k.mask, mask)
		for key, c := range k.clients {
			if key&mask == 0 {
				continue
			}
			if c.held {
				s.grow(r, -cap(c.times))
				c.times = nil
				continue
			}
			s.grow(r, -c.bytes())
			delete(k.clients, key)
		}
	}
}

func (c *chunkClient) bytes() int { return clientOverhead + cap(c.times) + cap(c.counts) }

// drop drops the oldest chunk of a rule.
func (s *sampler) drop(r *ruleSample) {
	for _, c := range r.chunks[0].clients {
		s.grow(r, -c.bytes())
	}
	s.grow(r, -chunkOverhead)
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
	manyRules := s.rules[largest].bytes < s.maxBytes/100
	switch {
	case oldest+chunkSeconds <= unix &&
		(oldest+chunkSeconds < unix-sampleLeast || manyRules || s.rules[largest].mostlyHeld()):
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
				stats.sampling.shift(true)
				s.thin(stats, r)
			}
		}
	}
	return true
}

// mostlyHeld reports whether held clients use most of the memory.
func (r *ruleSample) mostlyHeld() bool {
	held := 0
	for _, k := range r.chunks {
		for _, c := range k.clients {
			if c.held {
				held += c.bytes()
			}
		}
	}
	return 2*held > r.bytes
}

// erase removes the clients that meet a condition.
func (s *sampler) erase(condition func(*counted) bool) {
	ring := s.previous
	ring.drain(s.add)
	ring.start = s.now().UnixMicro()
	s.previous = s.current.Swap(ring)
	s.previous.drain(s.add)
	for stats, r := range s.rules {
		for _, k := range r.chunks {
			maps.DeleteFunc(k.clients, func(_ uint64, c *chunkClient) bool {
				if named := c.counted(stats); !condition(&named) {
					return false
				}
				s.grow(r, -c.bytes())
				return true
			})
		}
	}
}

func (v *slotValues) counted(stats *ruleStats) counted {
	return counted{rule: stats, values: string(v.values[:v.size]), byIP: v.byIP, cut: v.cut}
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
	for _, k := range chunks {
		for key := range k.clients {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}
