package alerts

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A Finding reports that a condition holds now.
type Finding struct {
	Condition *Condition
	// Subject is the rule, shard, server, node, mode or listener for which the condition holds.
	Subject string
	// Nodes are the IDs of the nodes that report the condition.
	Nodes []string
	// Rules are the IDs of the rules concerned, if the condition is about rules.
	Rules []string
	// Summary is a sentence without a full stop, and Past the same sentence for the time after the condition.
	Summary, Past string
	// Value is the measured value of the condition.
	Value float64
}

// A State is the state of an alert.
type State string

// The states of an alert. Stored alerts are firing or resolved.
const (
	Pending   State = "pending" // the condition holds, but not for Condition.For yet
	Firing    State = "firing"
	Resolving State = "resolving" // the alert has fired, and the condition does not hold now
	Resolved  State = "resolved"
)

// An Alert reports that a condition has held for at least Condition.For.
type Alert struct {
	// ID identifies the condition and its subject. An alert that fires again has the same ID.
	ID        string   `json:"id"`
	Condition string   `json:"condition"`
	Severity  Severity `json:"severity"`
	State     State    `json:"state"`
	Subject   string   `json:"subject"`
	Rules     []string `json:"rules,omitempty"`
	Nodes     []string `json:"nodes,omitempty"`
	Summary   string   `json:"summary"`
	Value     float64  `json:"value"`
	Runbook   string   `json:"runbook"`
	// Namespace is set in responses of the API only. Webhooks have the namespace of the event.
	Namespace string `json:"namespace,omitempty"`
	// Since is when the condition began to hold, Fired when the alert fired, and Resolved when it no longer held.
	Since    time.Time `json:"since"`
	Fired    time.Time `json:"fired,omitzero"`
	Resolved time.Time `json:"resolved,omitzero"`

	past string // Finding.Past
}

const (
	// Keep is how long a resolved alert is listed.
	Keep = 24 * time.Hour
	// maxAlerts is the maximum number of alerts and pending findings of a namespace. Further ones are ignored.
	maxAlerts = 500
	// maxNodes is the maximum length of Alert.Nodes, and maxRules that of Alert.Rules.
	maxNodes = 20
	maxRules = 20
	// resolveAfter is how long a condition must not hold before its alert resolves. Without the delay, a condition with
	// short interruptions would fire many alerts.
	resolveAfter = 30 * time.Second
)

// A Book has the alerts of one namespace. The zero value is empty. It is not safe for concurrent use.
type Book struct {
	alerts  map[string]*Alert
	pending map[string]time.Time // when the condition of an alert that has not fired yet began to hold
	held    map[string]time.Time // when the condition last held
}

// Restore returns a Book with alerts that were stored.
func Restore(list []Alert, now time.Time) *Book {
	b := &Book{}
	b.init()
	for i := range list {
		b.alerts[list[i].ID] = &list[i]
		b.held[list[i].ID] = now
	}
	return b
}

func (b *Book) init() {
	if b.alerts == nil {
		b.alerts, b.pending, b.held = map[string]*Alert{}, map[string]time.Time{}, map[string]time.Time{}
	}
}

// Changes are the results of Update. The caller must store them all.
type Changes struct {
	Fired, Resolved []Alert
	// Expired are the IDs of deleted alerts.
	Expired []string
}

// Update updates the alerts by the current findings. Each pair of condition and subject may occur only once.
func (b *Book) Update(findings []Finding, now time.Time) (c Changes) {
	b.init()
	now = now.UTC()
	holds := make(map[string]bool, len(findings))
	for i := range findings {
		f := &findings[i]
		id := f.id()
		if len(b.alerts)+len(b.pending) >= maxAlerts && b.alerts[id] == nil && b.pending[id].IsZero() {
			continue
		}
		holds[id] = true
		if a := b.hold(id, f, now); a != nil {
			c.Fired = append(c.Fired, *a)
		}
	}
	maps.DeleteFunc(b.pending, func(id string, _ time.Time) bool { return !holds[id] })
	for _, id := range slices.Sorted(maps.Keys(b.alerts)) {
		a := b.alerts[id]
		switch {
		case a.State == Firing && !holds[id] && now.Sub(b.held[id]) >= resolveAfter:
			a.State, a.Resolved = Resolved, now
			a.end()
			c.Resolved = append(c.Resolved, *a)
		case a.State == Resolved && now.Sub(a.Resolved) > Keep:
			delete(b.alerts, id)
			delete(b.held, id)
			c.Expired = append(c.Expired, id)
		}
	}
	return c
}

// hold records that a condition holds. It returns the alert of the condition if it fires now.
func (b *Book) hold(id string, f *Finding, now time.Time) *Alert {
	b.held[id] = now
	a := b.alerts[id]
	if a != nil && a.State == Firing {
		a.describe(f)
		return nil
	}
	since, known := b.pending[id]
	if !known {
		since = now
		b.pending[id] = since
	}
	if now.Sub(since) < f.Condition.For {
		return nil
	}
	delete(b.pending, id)
	a = newAlert(f, Firing, since)
	a.Fired = now
	b.alerts[id] = a
	return a
}

// newAlert returns an alert about a finding that has held since a time.
func newAlert(f *Finding, state State, since time.Time) *Alert {
	a := &Alert{
		ID: f.id(), Condition: f.Condition.Name, Severity: f.Condition.Severity, State: state, Subject: f.Subject,
		Runbook: f.Condition.Runbook, Since: since,
	}
	a.describe(f)
	return a
}

// id returns the ID of the alert about a finding.
func (f *Finding) id() string { return f.Condition.Name + "/" + f.Subject }

// A Listing is a list of alerts in a response of the API.
type Listing struct {
	Firing int     `json:"firing"`
	Alerts []Alert `json:"alerts"`
	// Fallbacks describe how nodes decide while their store fails. There are none while it does not.
	Fallbacks []Fallback `json:"fallbacks,omitempty"`
}

// describe sets the fields that change while an alert fires.
func (a *Alert) describe(f *Finding) {
	slices.Sort(f.Nodes)
	a.Nodes, a.Rules = f.Nodes[:min(len(f.Nodes), maxNodes)], f.Rules[:min(len(f.Rules), maxRules)]
	a.Summary, a.past, a.Value = f.Summary, f.Past, f.Value
}

// end puts the summary into the past tense, because the condition no longer holds.
func (a *Alert) end() { a.Summary = cmp.Or(a.past, a.Summary) }

// List returns the alerts in the order of Sort.
func (b *Book) List() []Alert {
	list := make([]Alert, 0, len(b.alerts))
	for _, a := range b.alerts {
		list = append(list, *a)
	}
	Sort(list)
	return list
}

// Sort sorts alerts: critical firing alerts, other firing alerts, pending, resolving and resolved ones, each with the
// latest first.
func Sort(list []Alert) {
	rank := func(a *Alert) int {
		switch {
		case a.State == Firing && a.Severity == Critical:
			return 0
		case a.State == Firing:
			return 1
		case a.State == Pending:
			return 2
		case a.State == Resolving:
			return 3
		}
		return 4
	}
	slices.SortFunc(list, func(a, b Alert) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), b.Fired.Compare(a.Fired), cmp.Compare(a.ID, b.ID),
			cmp.Compare(a.Namespace, b.Namespace))
	})
}
