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
	// Summary is a sentence without a full stop.
	Summary string
	// Value is the measured value of the condition.
	Value float64
}

// A State is the state of an alert.
type State string

// The states of an alert.
const (
	Firing   State = "firing"
	Resolved State = "resolved"
)

// An Alert reports that a condition has held for at least Condition.For.
type Alert struct {
	// ID identifies the condition and its subject. An alert that fires again has the same ID.
	ID        string   `json:"id"`
	Condition string   `json:"condition"`
	Severity  Severity `json:"severity"`
	State     State    `json:"state"`
	Subject   string   `json:"subject"`
	Nodes     []string `json:"nodes,omitempty"`
	Summary   string   `json:"summary"`
	Value     float64  `json:"value"`
	Runbook   string   `json:"runbook"`
	// Since is when the condition began to hold, Fired when the alert fired, and Resolved when it no longer held.
	Since    time.Time `json:"since"`
	Fired    time.Time `json:"fired"`
	Resolved time.Time `json:"resolved,omitzero"`
}

const (
	// Keep is how long a resolved alert is listed.
	Keep = 24 * time.Hour
	// maxAlerts is the maximum number of alerts and pending findings of a namespace. Further ones are ignored.
	maxAlerts = 500
	// maxNodes is the maximum length of Alert.Nodes.
	maxNodes = 20
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
		id := f.Condition.Name + "/" + f.Subject
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
	a = &Alert{
		ID: id, Condition: f.Condition.Name, Severity: f.Condition.Severity, State: Firing, Subject: f.Subject,
		Runbook: f.Condition.Runbook, Since: since, Fired: now,
	}
	a.describe(f)
	b.alerts[id] = a
	return a
}

// A Listing is a list of alerts in a response of the API.
type Listing struct {
	Firing int     `json:"firing"`
	Alerts []Alert `json:"alerts"`
}

func (a *Alert) describe(f *Finding) {
	slices.Sort(f.Nodes)
	a.Nodes, a.Summary, a.Value = f.Nodes[:min(len(f.Nodes), maxNodes)], f.Summary, f.Value
}

// List returns the alerts in the order of Sort.
func (b *Book) List() []Alert {
	list := make([]Alert, 0, len(b.alerts))
	for _, a := range b.alerts {
		list = append(list, *a)
	}
	Sort(list)
	return list
}

// Sort sorts alerts: critical firing alerts, then other firing alerts, then resolved ones, each with the latest first.
func Sort(list []Alert) {
	rank := func(a *Alert) int {
		switch {
		case a.State == Resolved:
			return 2
		case a.Severity == Critical:
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(a, b Alert) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), b.Fired.Compare(a.Fired), cmp.Compare(a.ID, b.ID))
	})
}
