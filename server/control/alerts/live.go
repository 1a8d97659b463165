package alerts

import (
	"context"
	"time"
)

// Live returns the stored alerts of a namespace as the latest heartbeats show them: with pending alerts, and with
// firing ones as resolving if their condition does not hold now. The heartbeats are newer than the last evaluation, so
// that a list of alerts never contradicts the state of the nodes. The fallback is nil if no node decides without its
// store.
func (s *Service) Live(ctx context.Context, namespace string) (list []Alert, fallback *Fallback, err error) {
	stored, err := List(ctx, s.options.DB, namespace)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := s.options.Nodes(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	_, revision, err := s.options.DB.Revision(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	var since map[string]time.Time // nil if another process evaluates
	if value, ok := s.pending.Load(namespace); ok {
		since = value.(map[string]time.Time)
	}
	now := s.options.Now().UTC()
	list = live(stored, Find(&Input{Nodes: nodes, Revision: revision}, now), since, now)
	return list, FindFallback(namespace, nodes, now), nil
}

// live merges stored alerts and the current findings, which do not have DenialSpike. since is when the conditions of
// pending alerts began to hold. A condition that is not in it may have begun a moment ago, and is left out unless it is
// critical: nodes have old rules for a moment after each change.
func live(stored []Alert, findings []Finding, since map[string]time.Time, now time.Time) []Alert {
	found := make(map[string]*Finding, len(findings))
	for i := range findings {
		found[findings[i].id()] = &findings[i]
	}
	list := make([]Alert, 0, len(stored))
	for _, a := range stored {
		f := found[a.ID]
		switch {
		case a.State != Firing || a.Condition == DenialSpike.Name:
		case f == nil:
			a.State = Resolving
			a.end()
		default:
			a.describe(f)
			delete(found, a.ID)
		}
		list = append(list, a)
	}
	for id, f := range found {
		began, known := since[id]
		if !known && f.Condition.Severity != Critical {
			continue
		}
		if !known {
			began = now
		}
		list = append(list, *newAlert(f, Pending, began))
	}
	Sort(list)
	return list[:min(len(list), maxAlerts)]
}
