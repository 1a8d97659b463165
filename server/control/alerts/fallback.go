package alerts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Fallback describes how the nodes of a namespace decide requests without their store, while it fails. The alert
// failing_open and the console have their figures from it.
type Fallback struct {
	Namespace string `json:"namespace"`
	// UnlimitedPerSecond is the rate of the requests that are admitted without a limit. Each counts once, also if it
	// matches several rules.
	UnlimitedPerSecond float64 `json:"unlimited_per_second"`
	// OpenRules are the rules that admit them, the one with the most requests first. They may be fewer than
	// OpenRuleCount, the number of all.
	OpenRules     []string `json:"open_rules"`
	OpenRuleCount int      `json:"open_rule_count"`
	// OtherRules are rules with another on_failure that decide requests.
	OtherRules []string `json:"other_rules,omitempty"`
	// Nodes are the IDs of the nodes that admit requests without a limit. They may be fewer than NodeCount, the number of
	// all. LiveNodes is the number of nodes with recent heartbeats.
	Nodes     []string `json:"nodes"`
	NodeCount int      `json:"node_count"`
	LiveNodes int      `json:"live_nodes"`
	// Since is when the first of the requests without a limit was admitted. Until is when the last one was, and zero
	// while there are some.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// FindFallback returns the Fallback of a namespace. It is nil if no node decides requests without its store.
func FindFallback(namespace string, nodes []control.Node, now time.Time) *Fallback {
	f := &Fallback{Namespace: namespace, OpenRules: []string{}, Nodes: []string{}}
	perSecond, others, ended := map[string]float64{}, map[string]bool{}, true
	for i := range nodes {
		n := &nodes[i]
		if now.Sub(n.Seen) > silentAfter {
			continue
		}
		f.LiveNodes++
		if n.Health == nil {
			continue
		}
		for _, rule := range n.Health.OtherFallbacks {
			others[rule] = true
		}
		if len(n.Health.FailingOpen) > 0 {
			f.add(n, perSecond)
			ended = ended && !n.Health.UnlimitedUntil.IsZero()
		}
	}
	if len(perSecond)+len(others) == 0 {
		return nil
	}
	if !ended {
		f.Until = time.Time{}
	}
	f.OpenRules = slices.SortedFunc(maps.Keys(perSecond), func(a, b string) int {
		return cmp.Or(cmp.Compare(perSecond[b], perSecond[a]), strings.Compare(a, b))
	})
	f.OpenRuleCount = max(f.OpenRuleCount, len(f.OpenRules))
	f.OtherRules = slices.Sorted(maps.Keys(others))
	return f
}

// add adds the requests that a node admits without a limit. perSecond are the requests of each rule.
func (f *Fallback) add(n *control.Node, perSecond map[string]float64) {
	h, sum := n.Health, 0.0
	for _, r := range h.FailingOpen {
		perSecond[r.Rule] += r.PerSecond
		sum += r.PerSecond
	}
	if h.UnlimitedPerSecond > 0 { // nodes of old versions do not report it
		sum = h.UnlimitedPerSecond
	}
	f.UnlimitedPerSecond += sum
	if len(h.FailingOpen) == control.MaxFailingOpen { // the list may be cut
		f.OpenRuleCount = max(f.OpenRuleCount, h.FailingOpenRules)
	}
	f.Nodes, f.NodeCount = append(f.Nodes, n.ID), f.NodeCount+1
	since := h.UnlimitedSince
	if since.IsZero() { // an old version
		since = n.StoreSince
	}
	if !since.IsZero() && (f.Since.IsZero() || since.Before(f.Since)) {
		f.Since = since
	}
	if h.UnlimitedUntil.After(f.Until) {
		f.Until = h.UnlimitedUntil
	}
}

// Shortened returns f with at most maxRules rules and maxNodes nodes.
func (f *Fallback) Shortened() Fallback {
	short := *f
	short.OpenRules = short.OpenRules[:min(len(short.OpenRules), maxRules)]
	short.OtherRules = short.OtherRules[:min(len(short.OtherRules), maxRules)]
	short.Nodes = short.Nodes[:min(len(short.Nodes), maxNodes)]
	return short
}

// finding returns the condition that requests are admitted without a limit. They are one alert, whatever the number of
// rules and nodes: one stopped Redis concerns them all.
func (f *Fallback) finding() Finding {
	text := func(verb string) string {
		return fmt.Sprintf("About %s requests/s %s without a limit under %s", rateText(f.UnlimitedPerSecond), verb,
			rulesText(f.OpenRules, f.OpenRuleCount))
	}
	found := Finding{
		Condition: FailingOpen, Subject: "store", Nodes: f.Nodes, Rules: f.OpenRules, Value: f.UnlimitedPerSecond,
		Summary: text("pass"), Past: text("passed"),
	}
	if !f.Until.IsZero() {
		found.Summary = found.Past
	}
	return found
}

// rulesText returns "the rule a", "the rules a, b and c", or "the rules a, b, c and 2 more". count is the number of
// rules, of which some may not be in ids.
func rulesText(ids []string, count int) string {
	const shown = 3
	switch {
	case count == 1:
		return "the rule " + ids[0]
	case count > shown:
		return fmt.Sprintf("the rules %s and %d more", strings.Join(ids[:shown], ", "), count-shown)
	}
	last := len(ids) - 1
	return "the rules " + strings.Join(ids[:last], ", ") + " and " + ids[last]
}

// rateText formats a rate for a summary.
func rateText(perSecond float64) string {
	switch {
	case perSecond < 0.1:
		return "under 0.1"
	case perSecond < 10:
		return strings.TrimSuffix(strconv.FormatFloat(perSecond, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(perSecond, 'f', 0, 64)
}
