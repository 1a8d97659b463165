package trafficapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate/server/control/api/internal/call"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/follow"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/nodequery"
	"github.com/headgate/headgate/server/telemetry/traffic"
	"github.com/headgate/headgate/server/whatif"
)

// A whatIfRequest proposes other limits for a rule, or a draft that replaces the rule with the same id.
type whatIfRequest struct {
	Rule   string          `field:"rule"`
	Limits []string        `field:"limits"`
	Draft  json.RawMessage `field:"draft"`
	Window string          `field:"window"`
	Top    *int64          `field:"top"`
}

const (
	minWhatIf, maxWhatIf, defaultWhatIf = time.Minute, 3 * time.Hour, time.Hour
	maxWhatIfTop                        = 100
	// whatIfTimeout limits the replay of the sampled requests. If it passes, the result is partial.
	whatIfTimeout = 20 * time.Second
)

// A whatIfResponse is the result of a replay, with the nodes whose traffic was replayed.
type whatIfResponse struct {
	Window string `json:"window"`
	*whatif.Result
	Nodes []nodequery.NodeStatus `json:"nodes"`
	Error string                 `json:"error,omitempty"` // failures of nodes
}

// WhatIf serves POST /v1/whatif. It replays requests that the nodes have sampled, with other limits.
func (h *Handlers) WhatIf(c *call.Call) error {
	var request whatIfRequest
	if err := c.ReadJSON(&request); err != nil {
		return err
	}
	window, top, err := request.bounds()
	if err != nil {
		return err
	}
	c.SetDeadlines(call.BodyTime, 2*whatIfTimeout)
	current, rule, err := h.ruleInForce(c, &request)
	if err != nil {
		return err
	}
	proposed, notes, err := request.proposed(rule)
	if err != nil {
		return err
	}
	set, err := match.Compile([]rules.Rule{*proposed})
	if err != nil {
		return err
	}
	poll, samples, off, err := h.pollSamples(c, proposed.ID, window)
	if err != nil {
		return err
	}
	if off > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d nodes have no samples of requests: their traffic.clients is off.",
			off, len(poll.Nodes)))
	}
	recorded := whatif.FromSamples(samples)
	recorded.SetCost(&proposed.Cost)
	now := h.options.Now()
	if len(samples) == 0 {
		recorded.From, recorded.To = now.Add(-window), now
	}
	if len(samples) == 0 && off == 0 {
		notes = append(notes, "No node has sampled requests under this rule in this time.")
	}
	ctx, cancel := context.WithTimeout(c.R.Context(), whatIfTimeout)
	defer cancel()
	result, err := whatif.Run(ctx, recorded, whatif.Proposal{
		Set: set, Rule: proposed.ID, Current: current, Top: int(top),
	}, nil)
	if err != nil && !(errors.Is(err, context.DeadlineExceeded) && result != nil) {
		return err
	}
	result.Notes = append(result.Notes, notes...)
	response := whatIfResponse{Window: traffic.Short(window), Result: result}
	response.Nodes, response.Error = poll.Statuses()
	return c.Respond(http.StatusOK, response)
}

func (r *whatIfRequest) bounds() (window time.Duration, top int64, err error) {
	window, top = defaultWhatIf, 20
	if r.Window != "" {
		if window, err = parseDuration(r.Window); err != nil || window < minWhatIf || window > maxWhatIf {
			return 0, 0, problem.InvalidField("window", rules.Quote(r.Window), "1m to 3h")
		}
	}
	if r.Top != nil {
		if top = *r.Top; top < 1 || top > maxWhatIfTop {
			return 0, 0, problem.InvalidField("top", "", "1 to 100")
		}
	}
	if (r.Rule == "") == (r.Draft == nil) {
		return 0, 0, problem.InvalidField("rule", rules.Quote(r.Rule), "the id of a rule, with limits, or a draft of a rule")
	}
	switch {
	case r.Rule != "" && len(r.Limits) == 0:
		return 0, 0, problem.InvalidField("limits", "", `at least one limit, such as "10/s"`)
	case r.Rule == "" && len(r.Limits) > 0:
		return 0, 0, problem.InvalidField("limits", "", "no limits: the draft has them")
	}
	return window, top, nil
}

// ruleInForce returns the rule to change, and the rules in force with the registered clients and the overrides. If the
// rule is disabled or newer than the rules of this process, the set has this rule only.
func (h *Handlers) ruleInForce(c *call.Call, r *whatIfRequest) (*match.Set, *rules.Rule, error) {
	id := r.Rule
	if r.Draft != nil {
		draft, err := file.ReadRule(call.JSON, r.Draft)
		if err != nil {
			return nil, nil, call.InvalidDraft(err)
		}
		id = draft.ID
	}
	o, err := h.options.Editor.Get(c.R.Context(), c.Namespace, control.KindRule, id)
	if err != nil {
		return nil, nil, err
	}
	if o == nil {
		return nil, nil, &edit.NotFoundError{Namespace: c.Namespace, Kind: control.KindRule, ID: id}
	}
	rule, err := file.ReadRule(call.JSON, o.Body)
	if err != nil {
		return nil, nil, err
	}
	set, err := h.rulesInForce(c)
	if err == nil && set.Rule(id) == nil {
		set, err = match.Compile([]rules.Rule{rule})
	}
	return set, &rule, err
}

// rulesInForce returns the rules of the namespace of a call: those of the node in this process, or else those in the
// database.
func (h *Handlers) rulesInForce(c *call.Call) (*match.Set, error) {
	if h.options.Local != nil && h.options.LocalNamespace == c.Namespace {
		return h.options.Local.Rules(), nil
	}
	return follow.Load(c.R.Context(), follow.Database(h.options.DB, c.Namespace, nil), h.options.Now())
}

// proposed returns the proposed rule, and notes about the limits of the replay.
func (r *whatIfRequest) proposed(rule *rules.Rule) (*rules.Rule, []string, error) {
	if r.Draft == nil {
		p := *rule
		p.Limits = make([]rules.Limit, len(r.Limits))
		for i, text := range r.Limits {
			l, err := headgate.ParseLimit(text)
			if err != nil {
				return nil, nil, problem.InvalidInput("limits", err)
			}
			p.Limits[i].Limit = l
		}
		p.Disabled = false
		return &p, nil, nil
	}
	p, err := file.ReadRule(call.JSON, r.Draft)
	if err != nil {
		return nil, nil, call.InvalidDraft(err)
	}
	if !slices.Equal(p.Key, rule.Key) {
		return nil, nil, problem.InvalidField("draft.key", "", "the key of the rule in force, by which clients were "+
			"sampled; to try another key, replay an access log with headgate rules whatif")
	}
	var notes []string
	// Two rules that differ only in their conditions have equal JSON if the conditions are equal.
	a, b := rules.Rule{ID: "a", When: p.When, Unlimited: true}, rules.Rule{ID: "a", When: rule.When, Unlimited: true}
	if string(file.RuleJSON(&a)) != string(file.RuleJSON(&b)) {
		notes = append(notes, "The condition of the rule in force is used, because only requests that match it were sampled.")
	}
	p.Disabled = false
	return &p, notes, nil
}

// pollSamples returns the samples of all nodes, and the number of nodes whose samples are off.
func (h *Handlers) pollSamples(
	c *call.Call, rule string, window time.Duration,
) (_ *nodequery.Poll, samples []*traffic.Sample, off int, err error) {
	query := traffic.NodeQuery{Sample: &traffic.SampleQuery{Rule: rule, Window: window}}
	poll, responses, err := h.poll(c, query, nil)
	for i := range responses {
		if responses[i].SamplesOff {
			off++
		}
		if sample := responses[i].Sample; sample != nil {
			samples = append(samples, sample)
		}
	}
	return poll, samples, off, err
}
