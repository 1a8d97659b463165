package envoyrls

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/proto/grpcwire"
)

// Errors for refused requests. None has the code Unknown, which Envoy could not interpret.
var (
	errNoDomain      = grpcstatus.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	errNoDescriptors = grpcstatus.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	errNotConfigured = grpcstatus.Error(codes.FailedPrecondition, "no rate limit configuration loaded")
)

// decide decides a request and writes its reply. The error is a gRPC status.
func (s *Server) decide(ctx context.Context, c *rateLimitCall) error {
	r := &c.request
	switch {
	case r.tooMany != "":
		return grpcstatus.Errorf(codes.InvalidArgument, "too many %s: want at most %d descriptors of at most %d entries",
			r.tooMany, r.limits.Descriptors, r.limits.Entries)
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
	if err := s.findLimits(t, c); err != nil {
		return err
	}
	if err := s.queryStore(ctx, c); err != nil {
		return err
	}
	overall := s.buildStatuses(c)
	if overall == overLimit && !s.config.CountDenied {
		s.returnUnits(ctx, c)
	}
	return s.write(c, overall)
}

// write encodes the reply.
func (s *Server) write(c *rateLimitCall, overall code) error {
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

// findLimits finds the limits of all descriptors and selects the descriptors that the store decides.
func (s *Server) findLimits(t *table, c *rateLimitCall) error {
	r := &c.request
	if t.domains[r.domain] == nil {
		s.counts.unknownDomain.Add(1)
		return nil
	}
	for i := range c.outcomes {
		out := &c.outcomes[i]
		out.hits = c.hits(i)
		if r.descriptors[i].override.present {
			if err := s.applyOverride(c, i); err != nil {
				return err
			}
			continue
		}
		out.limit, c.nodes = t.match(r.domain, c.entries(i), c.nodes)
		if out.limit == nil {
			continue
		}
		out.counter = s.counterOf(c, i)
		if !out.limit.unlimited {
			c.buildKey(i, out.limit.suffix, 0)
		}
	}
	if t.hasReplaces {
		c.dropReplaced()
	}
	for i := range c.outcomes {
		if l := c.outcomes[i].limit; l != nil && !l.unlimited && !s.decidedWithoutStore(&c.outcomes[i]) {
			c.storeChecks = append(c.storeChecks, i)
		}
	}
	return nil
}

// applyOverride applies the limit that the request itself states for descriptor i.
func (s *Server) applyOverride(c *rateLimitCall, i int) error {
	out, o := &c.outcomes[i], &c.request.descriptors[i].override
	u := Unit(min(o.unit, math.MaxUint8))
	if u.Period() == 0 {
		return grpcstatus.Errorf(codes.InvalidArgument,
			"descriptor %d: limit: unit %d: want SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR", i, int32(o.unit))
	}
	out.requestLimit = limit{}
	if !out.requestLimit.setPerUnit(o.requests, u, o.multiplier) {
		return grpcstatus.Errorf(codes.InvalidArgument,
			"descriptor %d: limit: unit_multiplier %d: want at most 366 days", i, o.multiplier)
	}
	out.requestLimit.current = currentLimit("", o.requests, u, o.multiplier)
	out.limit, out.counter = &out.requestLimit, &s.overrides
	c.nodes = c.nodes[:0]
	c.buildKey(i, out.requestLimit.suffix, o.multiplier)
	return nil
}

// buildKey builds the counter key of descriptor i.
func (c *rateLimitCall) buildKey(i int, suffix byte, multiplier uint32) {
	from := len(c.keys)
	c.keys = appendKey(c.keys, c.request.domain, c.entries(i), c.nodes, suffix, multiplier)
	c.outcomes[i].key = span{from, len(c.keys)}
}

// counterOf returns the counter for the hits of descriptor i.
func (s *Server) counterOf(c *rateLimitCall, i int) *counter {
	l := c.outcomes[i].limit
	usesValues := l.detailed
	for _, n := range c.nodes {
		usesValues = usesValues || n.valueInMetric
	}
	if !usesValues {
		return l.counter
	}
	c.counterKey = append(append(c.counterKey[:0], c.request.domain...), 0)
	for j, e := range c.entries(i) {
		if j > 0 {
			c.counterKey = append(c.counterKey, '.')
		}
		c.counterKey = append(c.counterKey, e.key...)
		n := c.nodes[j]
		value := n.pattern
		if !n.sharesCounter && (l.detailed || n.valueInMetric) {
			value = e.value
		}
		if value != "" {
			c.counterKey = append(append(c.counterKey, '_'), value...)
		}
	}
	return s.detailed.get(l.counter.domain, c.counterKey)
}

// dropReplaced drops limits that other limits of the request replace.
func (c *rateLimitCall) dropReplaced() {
	for i := range c.outcomes {
		replacing := c.outcomes[i].limit
		if replacing == nil {
			continue
		}
		for _, name := range replacing.replaces {
			for j := range c.outcomes {
				if l := c.outcomes[j].limit; l != nil && !l.unlimited && l.name == name {
					c.outcomes[j].replaced = true
				}
			}
		}
	}
	for i := range c.outcomes {
		if c.outcomes[i].replaced {
			c.outcomes[i].limit = nil
		}
	}
}

// decidedWithoutStore reports whether a descriptor can be decided without the store, because its limit is 0 and denied
// hits are not counted. If so, it sets the decision.
func (s *Server) decidedWithoutStore(out *outcome) bool {
	if out.limit.max > 0 || s.config.CountDenied {
		return false
	}
	out.decision = headgate.Decision{
		Allowed: out.hits == 0, Limit: out.limit.storeLimit.Count,
		Remaining: out.limit.storeLimit.Count,
	}
	return true
}

// queryStore decides all descriptors in c.storeChecks. If the store is in this process, it decides one after the other;
// otherwise it decides them concurrently, which takes one round trip. Descriptors with the same counter are decided in
// the order of the request. If the store fails, the failure policy decides. The error is that of the request's context.
func (s *Server) queryStore(ctx context.Context, c *rateLimitCall) error {
	if len(c.storeChecks) == 0 {
		return nil
	}
	if s.storeBorrowsKeys {
		for _, i := range c.storeChecks {
			out := &c.outcomes[i]
			key := c.keys[out.key.from:out.key.to]
			s.take(ctx, out, grpcwire.Borrow(key), c.request.descriptors[i].negative)
		}
	} else {
		keys := string(c.keys)
		c.eachCounter(c.storeChecks, keys, func(i int) {
			out := &c.outcomes[i]
			s.take(ctx, out, keys[out.key.from:out.key.to], c.request.descriptors[i].negative)
		})
	}
	for _, i := range c.storeChecks {
		out := &c.outcomes[i]
		if out.err != nil {
			if err := s.applyFailurePolicy(ctx, out); err != nil {
				return err
			}
		}
		if out.decision.Degraded {
			s.counts.degraded.Add(1)
		}
	}
	return nil
}

// eachCounter calls do for each index in list, which must not be empty, and waits for all calls. Calls for different
// keys are concurrent; calls for the same key are made in the order of the request.
func (c *rateLimitCall) eachCounter(list []int, keys string, do func(i int)) {
	for n, i := range list {
		out := &c.outcomes[i]
		out.next, out.hasEarlier = -1, false
		for _, j := range list[:n] { // a short list, limited by Limits.Descriptors
			earlier := &c.outcomes[j]
			if earlier.next < 0 && keys[earlier.key.from:earlier.key.to] == keys[out.key.from:out.key.to] {
				earlier.next, out.hasEarlier = i, true
				break
			}
		}
	}
	run := func(i int) {
		for ; i >= 0; i = c.outcomes[i].next {
			do(i)
		}
	}
	for _, i := range list[1:] {
		if !c.outcomes[i].hasEarlier {
			c.wg.Go(func() { run(i) })
		}
	}
	run(list[0])
	c.wg.Wait()
}

// take takes the hits of a descriptor from the store.
func (s *Server) take(ctx context.Context, out *outcome, key string, negative bool) {
	check := headgate.Check{Key: key, Limit: out.limit.storeLimit, Cost: out.hits, OnFailure: s.config.OnFailure}
	switch {
	case out.hits > 0 && negative:
		out.decision, out.err = s.returnHits(ctx, check)
	case out.hits > 0 && s.config.CountDenied:
		out.decision, out.err = s.takeOrCharge(ctx, &check)
	case out.hits == 0:
		out.decision, out.err = s.config.Store.Peek(ctx, check)
	default:
		out.decision, out.err = s.config.Store.Take(ctx, check)
	}
}

// returnHits returns hits, and then reads the counter. The request has no receipt, so returnHits uses one for hits
// taken at this moment.
func (s *Server) returnHits(ctx context.Context, check headgate.Check) (headgate.Decision, error) {
	receipt := headgate.Receipt{At: s.config.Now().UnixMicro(), Units: check.Cost}
	if err := s.config.Store.Give(ctx, check, receipt); err != nil {
		return headgate.Decision{}, err
	}
	check.Cost = 0
	return s.config.Store.Peek(ctx, check)
}

// applyFailurePolicy applies the failure policy, unless the request's context has ended.
func (s *Server) applyFailurePolicy(ctx context.Context, out *outcome) error {
	if err := ctx.Err(); err != nil {
		return grpcstatus.FromContextError(err).Err()
	}
	if errors.Is(out.err, headgate.ErrOverloaded) {
		// Deny the request. After an error, Envoy would allow it unless failure_mode_deny is set.
		out.decision = headgate.Decision{
			Limit: out.limit.storeLimit.Capacity(), RetryAfter: time.Second, ResetAfter: time.Second,
		}
		return nil
	}
	s.config.OnError(fmt.Errorf("envoyrls: store failed, policy %s: %w", s.config.OnFailure, out.err))
	out.decision = headgate.Decision{
		Allowed: s.config.OnFailure != headgate.Closed, Degraded: true, Limit: out.limit.storeLimit.Capacity(),
	}
	if out.decision.Allowed {
		out.decision.Remaining = max(0, out.decision.Limit-out.hits)
	}
	return nil
}

// buildStatuses sets the statuses of all descriptors, and returns the code of the whole request.
func (s *Server) buildStatuses(c *rateLimitCall) code {
	denied, quotas, exceeded := false, 0, 0
	for i := range c.outcomes {
		out, st := &c.outcomes[i], &c.statuses[i]
		*st = status{code: ok}
		l := out.limit
		if l == nil {
			continue
		}
		negative, hits := c.request.descriptors[i].negative, out.hits
		if negative {
			hits = 0 // the hits were returned, so none are counted
		}
		if l.unlimited {
			st.remaining = math.MaxUint32
			out.counter.within.Add(hits)
			continue
		}
		over := out.over(negative)
		st.current, st.max, st.over = l.current, l.max, over
		s.setRemaining(out, st)
		if l.quota {
			quotas++
		}
		switch {
		case over && l.shadow:
			out.counter.shadow.Add(hits)
		case over:
			out.counter.over.Add(hits)
			st.code = overLimit
			if l.quota {
				exceeded++
			} else {
				st.denies, denied = true, true
			}
		case l.max-out.decision.Remaining > l.max*4/5: // less than a fifth is left
			out.counter.near.Add(hits)
		default:
			out.counter.within.Add(hits)
		}
	}
	if denied || quotas > 0 && exceeded == quotas {
		return overLimit
	}
	return ok
}

// setRemaining sets the remaining hits and the reset time from the descriptor's latest decision.
func (s *Server) setRemaining(out *outcome, st *status) {
	counted := &out.limit.storeLimit
	st.hasReset, st.reset = true, out.decision.ResetAfter
	if st.reset <= 0 && counted.Algorithm == headgate.FixedWindow && !counted.Staggered {
		st.reset = untilNextWindow(s.config.Now(), counted.Period)
	}
	if !st.over {
		st.remaining = uint32Of(min(out.decision.Remaining, out.limit.max))
	}
}

// over reports whether the limit is exceeded.
func (out *outcome) over(negative bool) bool {
	d := &out.decision
	if !d.Allowed || out.hits > out.limit.max && !negative {
		return true
	}
	// The store counts a limit of 0 as a limit of 1.
	return out.limit.max == 0 && d.Limit-d.Remaining > 0
}
