package envoyrls

import (
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/proto/grpcwire"
)

// A rateLimitCall has a request, its intermediate results and its response. Its memory is pooled.
type rateLimitCall struct {
	request request
	reply   reply

	outcomes     []outcome // one per descriptor
	storeChecks  []int     // indexes of the descriptors that the store decides
	ruleChecks   []int     // indexes of the descriptors that rules decide
	statuses     []status  // one per descriptor
	nodes        []*node
	ruleOutcomes []*ruleOutcome // one per descriptor, if rules decide
	keys         []byte
	wg           sync.WaitGroup // the concurrent store calls
	counterKey   []byte         // see detailedCounters.counters
}

// An outcome is the limit of a descriptor and the decision on it.
type outcome struct {
	limit        *limit // nil if there is no limit, or if another limit replaces it
	requestLimit limit  // memory for limit if the request itself states the limit
	hits         int64
	counter      *counter
	replaced     bool
	key          span
	decision     headgate.Decision
	err          error

	next       int  // index of the next descriptor with the same counter, -1 for none
	hasEarlier bool // an earlier descriptor has the same counter
}

// A span is a part of call.keys.
type span struct{ from, to int }

var calls = sync.Pool{New: func() any {
	c := new(rateLimitCall)
	c.reply.call = c
	return c
}}

func newCall(limits Limits) *rateLimitCall {
	c := calls.Get().(*rateLimitCall)
	c.request.limits = limits
	return c
}

// maxPooledBytes is the largest buffer, in bytes, that a pooled call keeps.
const maxPooledBytes = 64 << 10

// free returns the call to the pool. It must not be used afterwards.
func (c *rateLimitCall) free() {
	if cap(c.request.buf) > maxPooledBytes || cap(c.keys) > maxPooledBytes || cap(c.reply.encoded) > maxPooledBytes {
		return
	}
	calls.Put(c)
}

// reset prepares the call for a request that was just read.
func (c *rateLimitCall) reset() {
	n := len(c.request.descriptors)
	if cap(c.outcomes) < n {
		c.outcomes, c.statuses = make([]outcome, n), make([]status, n)
	}
	c.outcomes, c.statuses = c.outcomes[:n], c.statuses[:n]
	for i := range c.outcomes {
		out := &c.outcomes[i]
		out.limit, out.counter, out.replaced, out.err = nil, nil, false, nil
	}
	c.storeChecks, c.ruleChecks, c.keys = c.storeChecks[:0], c.ruleChecks[:0], c.keys[:0]
}

// entries returns the entries of descriptor i.
func (c *rateLimitCall) entries(i int) []entry {
	d := &c.request.descriptors[i]
	return c.request.entries[d.from:d.to]
}

// hits returns the number of hits that descriptor i adds. With 0, the counter is only read.
func (c *rateLimitCall) hits(i int) int64 {
	d := &c.request.descriptors[i]
	if d.hasHits {
		return int64(min(d.hits, headgate.MaxCount)) // higher values exceed every limit too
	}
	return int64(max(1, c.request.hits))
}

// A reply is an encoded RateLimitResponse.
type reply struct {
	call    *rateLimitCall
	overall code
	encoded []byte
}

// MarshalWire appends the reply and frees the call, so it must be called only once.
func (r *reply) MarshalWire(dst []byte) ([]byte, error) {
	dst = append(dst, r.encoded...)
	r.call.free()
	return dst, nil
}

// UnmarshalWire is not supported: a server only writes replies.
func (r *reply) UnmarshalWire([]byte) error { return errUnsupported }

// write encodes the statuses. headers is the index of the status for the RateLimit headers, -1 for none.
func (c *rateLimitCall) write(overall code, headers int) {
	c.reply.overall = overall
	out := grpcwire.AppendVarint(c.reply.encoded[:0], 1, uint64(overall))
	for i := range c.statuses {
		out = c.statuses[i].append(out)
	}
	if headers >= 0 {
		s := &c.statuses[headers]
		var digits [20]byte
		number := func(n int64) string {
			return grpcwire.Borrow(strconv.AppendInt(digits[:0], n, 10))
		}
		out = appendHeader(out, "RateLimit-Limit", number(s.max))
		out = appendHeader(out, "RateLimit-Remaining", number(int64(s.remaining)))
		out = appendHeader(out, "RateLimit-Reset", number(s.seconds()))
	}
	c.reply.encoded = out
}

// tightest returns the index of the status for the RateLimit headers. It is the last status that denies or, if none
// does, the first status with the fewest hits remaining. It is -1 if no descriptor has a limit.
func (c *rateLimitCall) tightest() int {
	index := -1
	for i := range c.statuses {
		s := &c.statuses[i]
		switch {
		case s.current == nil:
		case s.denies, index < 0, !c.statuses[index].denies && s.remaining < c.statuses[index].remaining:
			index = i
		}
	}
	return index
}

// untilNextWindow returns the time until the end of the current window. Windows are aligned with the clock.
func untilNextWindow(now time.Time, period time.Duration) time.Duration {
	return period - time.Duration(now.UnixNano()%int64(period))
}
