package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/server/control"
)

// The kinds of events that a webhook can receive.
const (
	Revisions = "revision" // new revisions of the namespace
	Alerts    = "alert"    // alerts that fire or resolve
)

// The values of Event.Event.
const (
	EventRevision      = "revision"
	EventAlertFired    = "alert.fired"
	EventAlertResolved = "alert.resolved"
)

// wants reports whether a webhook receives a kind of events. A webhook without kinds receives revisions.
func (d *Draft) wants(kind string) bool {
	if len(d.Events) == 0 {
		return kind == Revisions
	}
	return slices.Contains(d.Events, kind)
}

// kindsProblem returns a description of valid kinds of events if those of d are invalid, otherwise "".
func (d *Draft) kindsProblem() string {
	for i, kind := range d.Events {
		if kind != Revisions && kind != Alerts || slices.Contains(d.Events[:i], kind) {
			return "revision and alert, each at most once"
		}
	}
	return ""
}

// hooksFor returns the webhooks of a namespace that receive a kind of events.
func (s *Service) hooksFor(ctx context.Context, namespace, kind string) ([]control.Object, error) {
	query := control.Query{Namespace: namespace, Kind: control.KindWebhook, Limit: maxWebhooks}
	hooks, err := s.db.List(ctx, query)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(hooks, func(o control.Object) bool { return !wants(&o, kind) }), nil
}

// wants reports whether a stored webhook receives a kind of events.
func wants(o *control.Object, kind string) bool {
	var d Draft
	return json.Unmarshal(o.Body, &d) == nil && d.wants(kind)
}

// SendAlert creates a delivery of an alert for each webhook that receives alerts. event is EventAlertFired or
// EventAlertResolved. SendAlert does not wait until the deliveries are sent.
func (s *Service) SendAlert(ctx context.Context, namespace, event string, alert any) error {
	hooks, err := s.hooksFor(ctx, namespace, Alerts)
	if err != nil || len(hooks) == 0 {
		return err
	}
	body, err := json.Marshal(alert)
	if err != nil {
		return err
	}
	revision, _, err := s.db.Revision(ctx, namespace)
	if err != nil {
		return err
	}
	now := s.now().UTC()
	number := s.nextNumber(now)
	for i := range hooks {
		d := Delivery{
			Revision: revision, Webhook: hooks[i].ID, Namespace: namespace, Changed: now, State: Pending, Next: now, Owner: s.id,
			Number: number, Event: event, Alert: body,
		}
		if err := s.store(ctx, &d); err != nil {
			return fmt.Errorf("store a delivery of the webhook %s: %w", d.Webhook, err)
		}
		s.push(d)
		if err := s.removeOldest(ctx, namespace, d.Webhook); err != nil {
			return err
		}
	}
	return nil
}

// nextNumber returns a number that identifies the deliveries of an alert: the time in microseconds since 1970. It is
// higher than any revision, so deliveries of revisions never have the same number.
func (s *Service) nextNumber(now time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number = max(s.number+1, now.UnixMicro())
	return s.number
}
