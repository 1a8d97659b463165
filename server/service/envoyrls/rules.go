package envoyrls

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

// errNegative is the response to negative hits, which would return units. This is impossible, because it is unknown
// which of a rule's limits took the units.
var errNegative = grpcstatus.Error(codes.Unimplemented,
	"is_negative_hits: rules cannot return hits; limits of a configuration can")

// A subject has the attributes of a descriptor for rules. The domain is the namespace, and each entry is the attribute
// descriptor.<key>. If a key occurs twice, the first entry is used.
type subject struct {
	domain  string
	entries []entry
}

var _ rules.NameLister = (*subject)(nil)

// Get returns the value of an attribute.
func (s *subject) Get(a headgate.Attribute) (string, bool) {
	switch a.Kind {
	case headgate.AttrNamespace:
		return s.domain, true
	case headgate.AttrDescriptor:
		for i := range s.entries {
			if s.entries[i].key == a.Name {
				return s.entries[i].value, true
			}
		}
	}
	return "", false
}

// AppendNames appends the keys of the entries.
func (s *subject) AppendNames(dst []string, kind headgate.AttributeKind) ([]string, bool) {
	if kind == headgate.AttrDescriptor {
		for i := range s.entries {
			dst = append(dst, s.entries[i].key)
		}
	}
	return dst, true
}

// A ruleOutcome is the engine's verdict on a descriptor.
type ruleOutcome struct {
	subject subject
	verdict engine.Verdict
	err     error
}

// decideByRules decides each descriptor by the rules, concurrently if the store is remote. If one descriptor is denied,
// the request takes nothing. If rules delay the request, decideByRules waits for the longest delay.
func (s *Server) decideByRules(ctx context.Context, c *rateLimitCall) error {
	n := len(c.outcomes)
	for len(c.ruleOutcomes) < n {
		c.ruleOutcomes = append(c.ruleOutcomes, new(ruleOutcome))
	}
	c.nodes = c.nodes[:0]
	for i := range c.outcomes {
		c.outcomes[i].hits = c.hits(i)
		if c.request.descriptors[i].negative && !c.request.descriptors[i].override.present {
			return errNegative
		}
		if c.request.descriptors[i].override.present {
			if err := s.applyOverride(c, i); err != nil {
				return err
			}
			c.storeChecks = append(c.storeChecks, i)
		} else {
			c.ruleChecks = append(c.ruleChecks, i)
		}
	}
	if err := s.queryStore(ctx, c); err != nil {
		return err
	}
	s.decideRuleChecks(ctx, c)
	overall := s.buildStatuses(c)
	var failed error
	for i := range c.outcomes {
		if c.outcomes[i].limit != nil {
			continue
		}
		r := c.ruleOutcomes[i]
		if r.err != nil {
			failed = errors.Join(failed, r.err)
			continue
		}
		if !s.setRuleStatus(r, &c.statuses[i]) {
			overall = overLimit
		}
	}
	if failed != nil || overall == overLimit {
		s.cancel(ctx, c)
	}
	if failed != nil {
		return statusOf(ctx, failed)
	}
	if err := s.waitForDelays(ctx, c, overall); err != nil {
		return err
	}
	return s.write(c, overall)
}

// decideRuleChecks decides the descriptors for which the request states no limit. Equal descriptors are decided in the
// order of the request, others concurrently if the store is remote.
func (s *Server) decideRuleChecks(ctx context.Context, c *rateLimitCall) {
	switch {
	case s.storeBorrowsKeys || len(c.ruleChecks) == 1:
		for _, i := range c.ruleChecks {
			s.decideRuleCheck(ctx, c, i)
		}
	case len(c.ruleChecks) > 1:
		for _, i := range c.ruleChecks {
			c.buildKey(i, ruleSuffix, 0)
		}
		c.eachCounter(c.ruleChecks, string(c.keys), func(i int) { s.decideRuleCheck(ctx, c, i) })
	}
}

func (s *Server) decideRuleCheck(ctx context.Context, c *rateLimitCall, i int) {
	r, d := c.ruleOutcomes[i], &c.request.descriptors[i]
	r.subject = subject{domain: c.request.domain, entries: c.entries(i)}
	options := engine.DecideOptions{Cost: c.outcomes[i].hits, HasCost: d.hasHits || c.request.hits > 0}
	r.err = s.config.Engine.DecideWith(ctx, &r.subject, options, &r.verdict)
}

// setRuleStatus sets the status from a verdict, and reports whether the descriptor is allowed.
func (s *Server) setRuleStatus(r *ruleOutcome, st *status) bool {
	v := &r.verdict
	passes := v.Action.Passes()
	*st = status{code: ok}
	if !passes {
		st.code, st.over, st.denies = overLimit, true, true
	}
	for _, l := range v.Limits() {
		if l.Shadow || l.Rule != v.Rule || l.Decision != v.Decision {
			continue // the status shows the limit that determined the verdict
		}
		name := l.Rule.ID
		if len(l.Rule.Limits) > 1 {
			name += "/" + l.Name
		}
		st.max = l.Decision.Limit
		st.current = currentLimit(name, uint32Of(l.Limit.Count), unitOf(l.Limit.Period), 0)
		st.reset, st.hasReset = l.Decision.ResetAfter, true
		if passes {
			st.remaining = uint32Of(l.Decision.Remaining)
		} else if v.RetryAfter != headgate.Never {
			st.reset = v.RetryAfter
		}
		if st.reset <= 0 && l.Limit.Algorithm == headgate.FixedWindow && !l.Limit.Staggered {
			st.reset = untilNextWindow(s.config.Now(), l.Limit.Period)
		}
		break
	}
	return passes
}

// cancel returns the units that were taken for the descriptors of a request that is not allowed.
func (s *Server) cancel(ctx context.Context, c *rateLimitCall) {
	s.returnUnits(ctx, c)
	for i := range c.outcomes {
		r := c.ruleOutcomes[i]
		if c.outcomes[i].limit != nil || r.err != nil || !r.verdict.Action.Passes() {
			continue
		}
		if err := r.verdict.Cancel(context.WithoutCancel(ctx)); err != nil {
			s.config.OnError(err)
			continue
		}
		if st := &c.statuses[i]; st.current != nil {
			st.remaining = uint32Of(min(int64(st.remaining)+r.verdict.Decision.Receipt.Units, st.max))
		}
	}
}

// waitForDelays waits for the longest delay of the verdicts, because the response cannot make Envoy wait. If the
// context ends earlier, it returns all units taken.
func (s *Server) waitForDelays(ctx context.Context, c *rateLimitCall, overall code) error {
	if overall != ok || !slices.ContainsFunc(c.ruleOutcomes[:len(c.outcomes)], (*ruleOutcome).delayed) {
		return nil
	}
	waitCtx, end := context.WithCancel(ctx)
	defer end()
	for i := range c.outcomes {
		if r := c.ruleOutcomes[i]; c.outcomes[i].limit == nil && r.delayed() {
			c.wg.Go(func() {
				if r.err = r.verdict.Wait(waitCtx); r.err != nil {
					end() // the other waits are no longer needed
				}
			})
		}
	}
	c.wg.Wait()
	var failed error
	for i := range c.outcomes {
		if c.outcomes[i].limit == nil {
			failed = errors.Join(failed, c.ruleOutcomes[i].err)
		}
	}
	if failed == nil {
		return nil
	}
	s.cancel(ctx, c) // returns the units of descriptors whose wait has ended
	return statusOf(ctx, failed)
}

func (r *ruleOutcome) delayed() bool { return r.verdict.Action == engine.Delay }

// statusOf converts err to a gRPC status. The code is never Unknown.
func statusOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return grpcstatus.FromContextError(ctx.Err()).Err()
	}
	var input *headgate.InputError
	if errors.As(err, &input) {
		return grpcstatus.Error(codes.InvalidArgument, err.Error())
	}
	return grpcstatus.Error(codes.Unavailable, err.Error())
}
