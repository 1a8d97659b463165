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

// errNegative is what hits meet that are to be given back: it is not known which of a rule's limits took them.
var errNegative = grpcstatus.Error(codes.Unimplemented, "is_negative_hits: rules cannot give hits back; limits of a configuration can")

// A subject is a descriptor as rules see it: its domain is the namespace, and each entry a descriptor.<key>. Of a key that
// stands there twice the first counts.
type subject struct {
	domain  string
	entries []entry
}

var _ rules.Subject = (*subject)(nil)

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

// ruled is what the rules say of a descriptor.
type ruled struct {
	subject subject
	verdict engine.Verdict
	err     error
}

// decideByRules has the rules decide each descriptor, all at once if a store is asked over a network. A request that one of
// them denies takes nothing; one that some of them delay is held for the longest of their times.
func (s *Server) decideByRules(ctx context.Context, c *call) error {
	n := len(c.found)
	for len(c.ruled) < n {
		c.ruled = append(c.ruled, new(ruled))
	}
	c.nodes = c.nodes[:0]
	for i := range c.found {
		c.found[i].hits = c.hits(i)
		if c.request.descriptors[i].negative && !c.request.descriptors[i].override.is {
			return errNegative
		}
		if c.request.descriptors[i].override.is {
			if err := s.override(c, i); err != nil {
				return err
			}
			c.asked = append(c.asked, i)
		} else {
			c.byRules = append(c.byRules, i)
		}
	}
	if err := s.ask(ctx, c); err != nil {
		return err
	}
	s.rule(ctx, c)
	overall := s.conclude(c)
	var failed error
	for i := range c.found {
		if c.found[i].limit != nil {
			continue
		}
		r := c.ruled[i]
		if r.err != nil {
			failed = errors.Join(failed, r.err)
			continue
		}
		if !s.tell(r, &c.statuses[i]) {
			overall = overLimit
		}
	}
	if failed != nil || overall == overLimit {
		s.cancel(ctx, c)
	}
	if failed != nil {
		return statusOf(ctx, failed)
	}
	if err := s.hold(ctx, c, overall); err != nil {
		return err
	}
	return s.write(c, overall)
}

// rule decides the descriptors without a limit of their own by the rules. Equal descriptors are decided in the order of the
// request, others all at once if a store is asked over a network.
func (s *Server) rule(ctx context.Context, c *call) {
	switch {
	case s.borrows || len(c.byRules) == 1:
		for _, i := range c.byRules {
			s.ruleOne(ctx, c, i)
		}
	case len(c.byRules) > 1:
		for _, i := range c.byRules {
			c.key(i, byRule, 0)
		}
		c.eachCounter(c.byRules, string(c.keys), func(i int) { s.ruleOne(ctx, c, i) })
	}
}

func (s *Server) ruleOne(ctx context.Context, c *call, i int) {
	r, d := c.ruled[i], &c.request.descriptors[i]
	r.subject = subject{domain: c.request.domain, entries: c.entries(i)}
	terms := engine.Terms{Cost: c.found[i].hits, HasCost: d.hasHits || c.request.hits > 0}
	r.err = s.config.Engine.DecideTerms(ctx, &r.subject, terms, &r.verdict)
}

// tell makes a status of what the rules said, and tells whether the descriptor passes.
func (s *Server) tell(r *ruled, st *status) bool {
	v := &r.verdict
	passes := v.Action.Passes()
	*st = status{code: ok}
	if !passes {
		st.code, st.over, st.denies = overLimit, true, true
	}
	for _, l := range v.Limits() {
		if l.Shadow || l.Rule != v.Rule || l.Decision != v.Decision {
			continue
		}
		name := l.Rule.ID
		if len(l.Rule.Limits) > 1 {
			name += "/" + l.Name
		}
		st.most = l.Decision.Limit
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

// cancel gives back what was taken for the descriptors of a request that does not pass.
func (s *Server) cancel(ctx context.Context, c *call) {
	s.giveBack(ctx, c)
	for i := range c.found {
		r := c.ruled[i]
		if c.found[i].limit != nil || r.err != nil || !r.verdict.Action.Passes() {
			continue
		}
		if err := r.verdict.Cancel(context.WithoutCancel(ctx)); err != nil {
			s.config.OnError(err)
			continue
		}
		if st := &c.statuses[i]; st.current != nil {
			st.remaining = uint32Of(min(int64(st.remaining)+r.verdict.Decision.Receipt.Units, st.most))
		}
	}
}

// hold holds the answer for as long as the rules say, which is the longest of their times: an Envoy cannot be told to wait. If
// the call ends before, all that was taken for it is given back.
func (s *Server) hold(ctx context.Context, c *call, overall code) error {
	if overall != ok || !slices.ContainsFunc(c.ruled[:len(c.found)], (*ruled).delayed) {
		return nil
	}
	waiting, end := context.WithCancel(ctx)
	defer end()
	for i := range c.found {
		if r := c.ruled[i]; c.found[i].limit == nil && r.delayed() {
			c.under.Go(func() {
				if r.err = r.verdict.Wait(waiting); r.err != nil {
					end() // nobody waits for the others any more
				}
			})
		}
	}
	c.under.Wait()
	var failed error
	for i := range c.found {
		if c.found[i].limit == nil {
			failed = errors.Join(failed, c.ruled[i].err)
		}
	}
	if failed == nil {
		return nil
	}
	s.cancel(ctx, c) // those that have waited for their turn
	return statusOf(ctx, failed)
}

func (r *ruled) delayed() bool { return r.verdict.Action == engine.Delay }

// statusOf returns an error as one of gRPC. None has the code Unknown.
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
