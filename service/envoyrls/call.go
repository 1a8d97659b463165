package envoyrls

import (
	"strconv"
	"sync"
	"time"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate"
)

// A call is a request, what is found out about it, and its answer, in memory that is used again.
type call struct {
	request request
	reply   reply

	found    []finding // one a descriptor
	asked    []int     // which of them ask the store
	byRules  []int     // which of them rules decide
	statuses []status  // one a descriptor
	nodes    []*node
	ruled    []*ruled // one a descriptor, if rules decide
	keys     []byte
	under    sync.WaitGroup // those who ask the store
	name     []byte
}

// A finding is the limit of a descriptor and what was decided.
type finding struct {
	limit    *limit // nil if there is none, or another replaces it
	own      limit  // the one that limit points to if it is the request's own
	hits     int64
	counter  *counter
	replaced bool
	key      span
	decision headgate.Decision
	err      error

	next    int  // the next descriptor of the request with the same counter, below 0 for none
	follows bool // an earlier descriptor has the same counter
}

// A span is a part of call.keys.
type span struct{ from, to int }

var calls = sync.Pool{New: func() any {
	c := new(call)
	c.reply.call = c
	return c
}}

func newCall(most Limits) *call {
	c := calls.Get().(*call)
	c.request.most = most
	return c
}

// mostKept is how much memory of a kind a call keeps for the next one.
const mostKept = 64 << 10

// free hands the call back. Nobody may look at it after that.
func (c *call) free() {
	if cap(c.request.buf) > mostKept || cap(c.keys) > mostKept || cap(c.reply.out) > mostKept {
		return
	}
	calls.Put(c)
}

// reset makes room for what is to be found out.
func (c *call) reset() {
	n := len(c.request.descriptors)
	if cap(c.found) < n {
		c.found, c.statuses = make([]finding, n), make([]status, n)
	}
	c.found, c.statuses = c.found[:n], c.statuses[:n]
	for i := range c.found {
		f := &c.found[i]
		f.limit, f.counter, f.replaced, f.err = nil, nil, false, nil
	}
	c.asked, c.byRules, c.keys = c.asked[:0], c.byRules[:0], c.keys[:0]
}

// entries returns those of a descriptor.
func (c *call) entries(i int) []entry {
	d := &c.request.descriptors[i]
	return c.request.entries[d.from:d.to]
}

// hits returns how many hits a descriptor adds; none if it only looks.
func (c *call) hits(i int) int64 {
	d := &c.request.descriptors[i]
	if d.hasHits {
		return int64(min(d.hits, headgate.MaxCount)) // more is over every limit as well
	}
	return int64(max(1, c.request.hits))
}

// A reply is a RateLimitResponse. It is written while it is made.
type reply struct {
	call    *call
	overall code
	out     []byte
}

// MarshalWire appends the reply and hands the call back: it can be called once.
func (r *reply) MarshalWire(dst []byte) ([]byte, error) {
	dst = append(dst, r.out...)
	r.call.free()
	return dst, nil
}

// UnmarshalWire is not for servers.
func (r *reply) UnmarshalWire([]byte) error { return errUnsupported }

// write makes the reply of the statuses. headers is the one that is told in headers, or below 0 if none is.
func (c *call) write(overall code, headers int) {
	c.reply.overall = overall
	out := c.reply.out[:0]
	out = append(out, 1<<3|byte(protowire.VarintType), byte(overall))
	for i := range c.statuses {
		s := &c.statuses[i]
		out = append(out, 2<<3|byte(protowire.BytesType))
		out = protowire.AppendVarint(out, uint64(s.size()))
		out = s.append(out)
	}
	if headers >= 0 {
		s := &c.statuses[headers]
		var digits [20]byte
		number := func(n int64) string {
			d := strconv.AppendInt(digits[:0], n, 10)
			return unsafe.String(unsafe.SliceData(d), len(d))
		}
		out = appendHeader(out, "RateLimit-Limit", number(s.most))
		out = appendHeader(out, "RateLimit-Remaining", number(int64(s.remaining)))
		out = appendHeader(out, "RateLimit-Reset", number(s.seconds()))
	}
	c.reply.out = out
}

// tightest returns which status is told in headers: the last that denies, else the first that has the least left; below 0
// if there is none with a limit.
func (c *call) tightest() int {
	at := -1
	for i := range c.statuses {
		s := &c.statuses[i]
		switch {
		case s.current == nil:
		case s.denies, at < 0, !c.statuses[at].denies && s.remaining < c.statuses[at].remaining:
			at = i
		}
	}
	return at
}

// untilNextWindow returns how long a window of the clock still lasts.
func untilNextWindow(now time.Time, period time.Duration) time.Duration {
	return period - time.Duration(now.UnixNano()%int64(period))
}
