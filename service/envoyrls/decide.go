package envoyrls

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
	"unsafe"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/headgate/headgate"
)

// What requests are refused with. None has the code Unknown.
var (
	errNoDomain      = grpcstatus.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	errNoDescriptors = grpcstatus.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	errNotConfigured = grpcstatus.Error(codes.FailedPrecondition, "no rate limit configuration loaded")
)

// decide answers a request. The error is a gRPC status.
func (s *Server) decide(ctx context.Context, c *call) error {
	r := &c.request
	switch {
	case r.tooMany != "":
		return grpcstatus.Errorf(codes.InvalidArgument, "too many %s: want at most %d descriptors of at most %d entries",
			r.tooMany, r.most.Descriptors, r.most.Entries)
	case r.domain == "":
		return errNoDomain
	case len(r.descriptors) == 0:
		return errNoDescriptors
	}
	c.reset()
	if s.config.Path == "" {
		return s.decideByRules(ctx, c)
	}
	t := s.table.Load()
	if t == nil {
		return errNotConfigured
	}
	if err := s.find(t, c); err != nil {
		return err
	}
	if err := s.ask(ctx, c); err != nil {
		return err
	}
	overall := s.conclude(c)
	if overall == overLimit && !s.config.CountDenied {
		s.giveBack(ctx, c)
	}
	return s.write(c, overall)
}

// write writes the response.
func (s *Server) write(c *call, overall code) error {
	headers := -1
	if s.config.ResponseHeaders {
		headers = c.tightest()
	}
	c.write(overall, headers)
	if s.config.DynamicMetadata || c.hasMetadata() {
		return c.appendMetadata()
	}
	return nil
}

// find finds the limits of all descriptors, and which of them ask the store.
func (s *Server) find(t *table, c *call) error {
	r := &c.request
	if t.domains[r.domain] == nil {
		s.counts.unknownDomain.Add(1)
		return nil
	}
	for i := range c.found {
		f := &c.found[i]
		f.hits = c.hits(i)
		if r.descriptors[i].override.is {
			if err := s.override(c, i); err != nil {
				return err
			}
			continue
		}
		f.limit, c.nodes = t.match(r.domain, c.entries(i), c.nodes)
		if f.limit == nil {
			continue
		}
		f.counter = s.counterOf(c, i)
		if !f.limit.unlimited {
			c.key(i, f.limit.suffix, 0)
		}
	}
	if t.named {
		c.replace()
	}
	for i := range c.found {
		if l := c.found[i].limit; l != nil && !l.unlimited && !s.certain(&c.found[i]) {
			c.asked = append(c.asked, i)
		}
	}
	return nil
}

// override takes the limit that a descriptor brings along.
func (s *Server) override(c *call, i int) error {
	f, o := &c.found[i], &c.request.descriptors[i].override
	u := Unit(min(o.unit, math.MaxUint8))
	if u.Period() == 0 {
		return grpcstatus.Errorf(codes.InvalidArgument, "descriptor %d: limit: unit %d: want SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR", i, int32(o.unit))
	}
	f.own = limit{}
	if !f.own.perUnit(o.requests, u, o.multiplier) {
		return grpcstatus.Errorf(codes.InvalidArgument, "descriptor %d: limit: unit_multiplier %d: want at most 366 days", i, o.multiplier)
	}
	f.own.current = currentLimit("", o.requests, u, o.multiplier)
	f.limit, f.counter = &f.own, &s.overrides
	c.nodes = c.nodes[:0]
	c.key(i, f.own.suffix, o.multiplier)
	return nil
}

// key makes the key of a descriptor's counter.
func (c *call) key(i int, suffix byte, multiplier uint32) {
	from := len(c.keys)
	c.keys = appendKey(c.keys, c.request.domain, c.entries(i), c.nodes, suffix, multiplier)
	c.found[i].key = span{from, len(c.keys)}
}

// counterOf returns where the hits of a descriptor are counted.
func (s *Server) counterOf(c *call, i int) *counter {
	l := c.found[i].limit
	valued := l.detailed
	for _, n := range c.nodes {
		valued = valued || n.valued
	}
	if !valued {
		return l.metric
	}
	c.name = append(append(c.name[:0], c.request.domain...), 0)
	for j, e := range c.entries(i) {
		if j > 0 {
			c.name = append(c.name, '.')
		}
		c.name = append(c.name, e.key...)
		n := c.nodes[j]
		value := n.pattern
		if !n.shared && (l.detailed || n.valued) {
			value = e.value
		}
		if value != "" {
			c.name = append(append(c.name, '_'), value...)
		}
	}
	return s.detailed.get(l.metric.domain, c.name)
}

// replace drops the limits that others replace.
func (c *call) replace() {
	for i := range c.found {
		by := c.found[i].limit
		if by == nil {
			continue
		}
		for _, name := range by.replaces {
			for j := range c.found {
				if l := c.found[j].limit; l != nil && !l.unlimited && l.name == name {
					c.found[j].replaced = true
				}
			}
		}
	}
	for i := range c.found {
		if c.found[i].replaced {
			c.found[i].limit = nil
		}
	}
}

// certain tells whether a decision needs no counter: nothing may pass, and what tries is not counted.
func (s *Server) certain(f *finding) bool {
	if f.limit.most > 0 || s.config.CountDenied {
		return false
	}
	f.decision = headgate.Decision{Allowed: f.hits == 0, Limit: f.limit.counted.Count, Remaining: f.limit.counted.Count}
	return true
}

// ask asks the store for all limits: one after the other if it is in this process, else all at once, so that it takes one
// round trip. Descriptors with the same counter are decided in the order of the request. An error is that of the call; if
// the store fails, the policy decides.
func (s *Server) ask(ctx context.Context, c *call) error {
	if len(c.asked) == 0 {
		return nil
	}
	if s.borrows {
		for _, i := range c.asked {
			f := &c.found[i]
			key := c.keys[f.key.from:f.key.to]
			s.take(ctx, f, unsafe.String(unsafe.SliceData(key), len(key)), c.request.descriptors[i].negative)
		}
	} else {
		keys := string(c.keys)
		c.eachCounter(c.asked, keys, func(i int) {
			f := &c.found[i]
			s.take(ctx, f, keys[f.key.from:f.key.to], c.request.descriptors[i].negative)
		})
	}
	for _, i := range c.asked {
		f := &c.found[i]
		if f.err != nil {
			if err := s.fail(ctx, f); err != nil {
				return err
			}
		}
		if f.decision.Degraded {
			s.counts.degraded.Add(1)
		}
	}
	return nil
}

// eachCounter calls do for each descriptor of a list, which is not empty, and returns when all calls have: concurrently for
// different keys, one after the other in the order of the request for the same key.
func (c *call) eachCounter(list []int, keys string, do func(i int)) {
	for at, i := range list {
		f := &c.found[i]
		f.next, f.follows = -1, false
		for _, j := range list[:at] { // fewer than Limits.Descriptors
			earlier := &c.found[j]
			if earlier.next < 0 && keys[earlier.key.from:earlier.key.to] == keys[f.key.from:f.key.to] {
				earlier.next, f.follows = i, true
				break
			}
		}
	}
	run := func(i int) {
		for ; i >= 0; i = c.found[i].next {
			do(i)
		}
	}
	for _, i := range list[1:] {
		if !c.found[i].follows {
			c.under.Go(func() { run(i) })
		}
	}
	run(list[0])
	c.under.Wait()
}

// take takes the hits of a descriptor.
func (s *Server) take(ctx context.Context, f *finding, key string, negative bool) {
	check := headgate.Check{Key: key, Limit: f.limit.counted, Cost: f.hits, OnFailure: s.config.OnFailure}
	switch {
	case f.hits > 0 && negative:
		f.decision, f.err = s.give(ctx, check)
	case f.hits > 0 && s.config.CountDenied:
		f.decision, f.err = s.count(ctx, &check)
	default:
		f.decision, f.err = s.config.Store.Take(ctx, check)
	}
}

// give returns hits, then looks. There is no receipt for them, so it is as if they had been taken just now.
func (s *Server) give(ctx context.Context, check headgate.Check) (headgate.Decision, error) {
	receipt := headgate.Receipt{At: s.config.Now().UnixMicro(), Units: check.Cost}
	if err := s.config.Store.Give(ctx, check, receipt); err != nil {
		return headgate.Decision{}, err
	}
	check.Cost = 0
	return s.config.Store.Take(ctx, check)
}

// fail has the policy decide, unless it is the call that has failed.
func (s *Server) fail(ctx context.Context, f *finding) error {
	if err := ctx.Err(); err != nil {
		return grpcstatus.FromContextError(err).Err()
	}
	if errors.Is(f.err, headgate.ErrOverloaded) {
		// An error would let the request pass, unless Envoy is told otherwise (failure_mode_deny).
		f.decision = headgate.Decision{Limit: f.limit.counted.Capacity(), RetryAfter: time.Second, ResetAfter: time.Second}
		return nil
	}
	s.config.OnError(fmt.Errorf("envoyrls: ask the store, %s: %w", s.config.OnFailure, f.err))
	f.decision = headgate.Decision{
		Allowed: s.config.OnFailure != headgate.Closed, Degraded: true, Limit: f.limit.counted.Capacity(),
	}
	if f.decision.Allowed {
		f.decision.Remaining = max(0, f.decision.Limit-f.hits)
	}
	return nil
}

// conclude makes the statuses, and returns what comes of the request.
func (s *Server) conclude(c *call) code {
	denied, quotas, spent := false, 0, 0
	for i := range c.found {
		f, st := &c.found[i], &c.statuses[i]
		*st = status{code: ok}
		l := f.limit
		if l == nil {
			continue
		}
		negative, hits := c.request.descriptors[i].negative, f.hits
		if negative {
			hits = 0 // none came: some were given back
		}
		if l.unlimited {
			st.remaining = math.MaxUint32
			f.counter.within.Add(hits)
			continue
		}
		over := f.over(negative)
		st.current, st.most, st.over = l.current, l.most, over
		s.measure(f, st)
		if l.quota {
			quotas++
		}
		switch {
		case over && l.shadow:
			f.counter.shadow.Add(hits)
		case over:
			f.counter.over.Add(hits)
			st.code = overLimit
			if l.quota {
				spent++
			} else {
				st.denies, denied = true, true
			}
		case l.most-f.decision.Remaining > l.most*4/5:
			f.counter.near.Add(hits)
		default:
			f.counter.within.Add(hits)
		}
	}
	if denied || quotas > 0 && spent == quotas {
		return overLimit
	}
	return ok
}

// measure sets how much the limit has left and when it is full again, by the descriptor's latest decision.
func (s *Server) measure(f *finding, st *status) {
	counted := &f.limit.counted
	st.hasReset, st.reset = true, f.decision.ResetAfter
	if st.reset <= 0 && counted.Algorithm == headgate.FixedWindow && !counted.Staggered {
		st.reset = untilNextWindow(s.config.Now(), counted.Period)
	}
	if !st.over {
		st.remaining = uint32Of(min(f.decision.Remaining, f.limit.most))
	}
}

// over reports whether the limit is exceeded.
func (f *finding) over(negative bool) bool {
	d := &f.decision
	if !d.Allowed || f.hits > f.limit.most && !negative {
		return true
	}
	// A limit of 0 is counted with one of 1.
	return f.limit.most == 0 && d.Limit-d.Remaining > 0
}
