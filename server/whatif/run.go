package whatif

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A Proposal is a rule to try.
type Proposal struct {
	// Set contains the proposed rule. Rule is its ID.
	Set  *match.Set
	Rule string
	// Current contains the rule in force. It is nil if there is none to compare with.
	Current *match.Set
	// Top is the number of clients in Result.Top. Default 20.
	Top int
}

const (
	defaultTop = 20
	// curveEvents is the maximum number of events that are replayed for each point of the curve. If there are more, the
	// curve is computed from a sample of the clients.
	curveEvents = 2_000_000
)

// Progress is called with the finished and the total number of replays.
type Progress func(done, total int)

var errNoRule = errors.New("whatif: the set does not have the rule")

// Run replays traffic under a proposal. If ctx ends, Run returns the part of the result that it has, and the error of
// ctx.
func Run(ctx context.Context, t *Traffic, p Proposal, progress Progress) (*Result, error) {
	rule := p.Set.Rule(p.Rule)
	if rule == nil {
		return nil, errNoRule
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	r := &Result{
		Rule: rule.ID, Limits: limitTexts(rule.Limits), From: t.From.UTC(), To: t.To.UTC(), SampledOneIn: t.OneIn,
		SampledClients: len(t.Clients), Top: []ClientOutcome{}, Curve: []Point{}, Notes: notes(rule),
	}
	run := newRun(ctx, t, termsOf(p.Set, rule))
	run.keepRegistered(p.Current, p.Rule)
	if err := run.chooseLimit(); err != nil {
		r.Partial = true
		return r, err
	}
	r.CurveLimit = indexInRule(rule.Limits, run.terms.varied)
	counts := curveCounts(run.terms)
	total := len(counts) + 2
	whole, err := run.replay(nil, func(c *Client, o Outcome) { r.addTop(c, o, cmp.Or(p.Top, defaultTop)) })
	if err != nil {
		r.Partial = true
		return r, err
	}
	r.Clients, r.Requests = whole.clients.estimate(t.OneIn), whole.requests.estimate(t.OneIn)
	r.Denied, r.Delayed = whole.denied.estimate(t.OneIn), whole.delayed.estimate(t.OneIn)
	r.Affected = whole.affected.estimate(t.OneIn)
	progress(1, total)
	if p.Current != nil && p.Current.Rule(p.Rule) != nil {
		current := p.Current.Rule(p.Rule)
		o, err := newRun(ctx, t, termsOf(p.Current, current)).replay(nil, nil)
		if err != nil {
			r.Partial = true
			return r, err
		}
		r.Current = &Comparison{
			Limits: limitTexts(current.Limits), Denied: o.denied.estimate(t.OneIn), Affected: o.affected.estimate(t.OneIn),
		}
	}
	progress(2, total)
	if err := run.curve(r, counts, func(i int) { progress(i+2, total) }); err != nil {
		r.Partial = true
		return r, err
	}
	if len(r.Curve) > 0 && r.Unaffected99 == nil {
		r.Notes = append(r.Notes, "No value of "+r.Limits[r.CurveLimit]+" leaves 99 % of the clients unaffected: other limits or "+
			"blocks affect more.")
	}
	return r, nil
}

// notes returns notes for Result.Notes about parts of a rule that the replay does not include.
func notes(r *rules.Rule) []string {
	var list []string
	if r.Penalty != nil {
		list = append(list, "The penalty of the rule is left out.")
	}
	if r.Cost.ResponseHeader != "" {
		list = append(list, "The cost in responses is unknown: each request takes the cost that was taken before its response.")
	}
	for i := range r.Limits {
		if r.Limits[i].Algorithm == headgate.Concurrency {
			list = append(list, "Concurrency limits are left out, because it is unknown how long requests took.")
			break
		}
	}
	if r.OnLimit.Action == rules.Shadow {
		list = append(list, "The rule is a shadow rule: the figures are those after it is enforced.")
	}
	return list
}

func limitTexts(list []rules.Limit) []string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = list[i].String()
	}
	return texts
}

// addTop adds a client to Top if it is one of the clients with the most denied requests.
func (r *Result) addTop(c *Client, o Outcome, most int) {
	if o.Denied == 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(r.Top, o.Denied, func(e ClientOutcome, denied int64) int {
		return cmp.Compare(denied, e.Denied)
	})
	if at >= most {
		return
	}
	r.Top = slices.Insert(r.Top, at, ClientOutcome{c.Name, o.Requests, o.Denied, o.Delayed})
	r.Top = r.Top[:min(len(r.Top), most)]
}

// ruleTerms finds the terms of clients under a rule.
type ruleTerms struct {
	set    *match.Set
	rule   *rules.Rule
	limits []headgate.Limit // the limits of the rule, without concurrency limits
	// varied is the index in limits of the limit that the curve varies.
	varied int
}

func termsOf(set *match.Set, rule *rules.Rule) *ruleTerms {
	return &ruleTerms{set: set, rule: rule, limits: limitsOf(rule.Limits)}
}

func limitsOf(list []rules.Limit) []headgate.Limit {
	limits := make([]headgate.Limit, 0, len(list))
	for i := range list {
		if list[i].Algorithm != headgate.Concurrency {
			limits = append(limits, list[i].Limit)
		}
	}
	return limits
}

// indexInRule returns the index in list of the limit that has the index at in limitsOf(list).
func indexInRule(list []rules.Limit, at int) int {
	for i := range list {
		if list[i].Algorithm == headgate.Concurrency {
			continue
		}
		if at == 0 {
			return i
		}
		at--
	}
	return 0 // the rule has only concurrency limits, so there is no curve
}

// forClient returns the terms of a client. They come from an override, from the client's registration or from the rule.
// own is false if they come from the rule.
func (t *ruleTerms) forClient(c *Client) (terms Terms, own bool) {
	terms = Terms{CountRejected: t.rule.CountRejected}
	if t.rule.OnLimit.Action == rules.Delay {
		terms.MaxDelay = t.rule.OnLimit.MaxWait
	}
	m, ok := t.set.MatchRule(t.rule.ID, c.Subject)
	switch {
	case !ok:
		terms.Unlimited = true
		return terms, true
	case m.Effect.Denies() && m.Effect != match.Unidentified && m.Effect != match.Ambiguous:
		terms.Blocked = true
		return terms, true
	case m.Effect != match.Limited && m.Effect != match.Unidentified && m.Effect != match.Ambiguous &&
		m.Effect != match.Skipped:
		terms.Unlimited = true
		return terms, true
	}
	if m.Effect != match.Limited || sameLimits(m.Limits, t.rule.Limits) {
		terms.Limits = t.limits
		return terms, false
	}
	terms.Limits = limitsOf(m.Limits)
	return terms, true
}

func sameLimits(a, b []rules.Limit) bool {
	return slices.EqualFunc(a, b, func(x, y rules.Limit) bool { return x.Limit == y.Limit })
}

// A run replays traffic several times.
type run struct {
	ctx     context.Context //nolint:containedctx // a run is one call of Run
	traffic *Traffic
	terms   *ruleTerms
	clients []clientTerms // of the clients of traffic
}

type clientTerms struct {
	Terms
	own bool // they are not the terms of the rule
}

func newRun(ctx context.Context, t *Traffic, terms *ruleTerms) *run {
	r := &run{ctx: ctx, traffic: t, terms: terms, clients: make([]clientTerms, len(t.Clients))}
	for i, c := range t.Clients {
		r.clients[i].Terms, r.clients[i].own = terms.forClient(c)
	}
	return r
}

// keepRegistered sets the terms of registered clients that have their own terms. A proposed rule does not change these,
// so they are the same as under the rules in force.
func (r *run) keepRegistered(current *match.Set, id string) {
	if current == nil || current.Rule(id) == nil {
		return
	}
	terms := termsOf(current, current.Rule(id))
	for i, c := range r.traffic.Clients {
		m, ok := current.MatchRule(id, c.Subject)
		if !ok || m.Client == "" || m.Override >= 0 {
			continue
		}
		if t, own := terms.forClient(c); own {
			r.clients[i] = clientTerms{t, true}
		}
	}
}

// sums are the sums over all clients.
type sums struct{ clients, requests, denied, delayed, affected sum }

// checkEvery is the number of clients, or of lines of a log, between two checks whether the context has ended.
const checkEvery = 256

// replay replays the requests of all clients. If limits is not nil, it replaces the limits of the rule.
func (r *run) replay(limits []headgate.Limit, each func(*Client, Outcome)) (*sums, error) {
	s, p := &sums{}, &player{}
	for i, c := range r.traffic.Clients {
		if i%checkEvery == 0 && r.ctx.Err() != nil {
			return nil, r.ctx.Err()
		}
		if err := p.prepare(r.termsAt(i, limits), c.Key); err != nil {
			return nil, err
		}
		o := p.play(c, false)
		s.clients.add(c, 1)
		s.requests.add(c, float64(o.Requests))
		s.denied.add(c, float64(o.Denied))
		s.delayed.add(c, float64(o.Delayed))
		if o.Denied > 0 {
			s.affected.add(c, 1)
		}
		if each != nil {
			each(c, o)
		}
	}
	return s, nil
}

// termsAt returns the terms of the client at index i. If limits is not nil, it replaces the limits of the rule.
func (r *run) termsAt(i int, limits []headgate.Limit) *Terms {
	t := r.clients[i].Terms
	if limits != nil && !r.clients[i].own {
		t.Limits = limits
	}
	return &t
}

// share returns the share of the clients that are not affected, from 0 to 1.
func (s *sums) share(oneIn int64) float64 {
	clients := s.clients.certain + float64(oneIn)*s.clients.sampled
	if clients == 0 {
		return 1
	}
	affected := s.affected.certain + float64(oneIn)*s.affected.sampled
	return math.Round((1-affected/clients)*1e6) / 1e6
}
