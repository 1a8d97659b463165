package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Delivery is the notification of one webhook about one revision or alert.
type Delivery struct {
	Revision  int64     `json:"revision"`
	Webhook   string    `json:"webhook"`
	Namespace string    `json:"namespace"`
	Changed   time.Time `json:"changed"` // time of the change
	State     State     `json:"state"`
	Attempts  int       `json:"attempts"`
	Next      time.Time `json:"next,omitzero"` // time of the next attempt
	Last      time.Time `json:"last,omitzero"` // time of the last attempt
	Status    int       `json:"status,omitempty"`
	Error     string    `json:"error,omitempty"`
	// Event, Alert and Number are only set for alerts. Number then identifies the delivery, and Revision is the latest
	// revision at that time.
	Event  string          `json:"event,omitempty"`
	Alert  json.RawMessage `json:"alert,omitempty"`
	Number int64           `json:"number,omitempty"`
	// Owner is the ID of the Service that sends the delivery. It is only for the database.
	Owner string `json:"owner,omitempty"`
}

// A State is the state of a delivery.
type State string

// The states of a delivery.
const (
	Pending   State = "pending"
	Delivered State = "delivered"
	Dead      State = "dead" // the last attempt has failed
)

// maxDeliveries is the maximum number of deliveries that are stored for one webhook.
const maxDeliveries = 200

// Deliveries returns the deliveries of a webhook, latest first.
func (s *Service) Deliveries(ctx context.Context, namespace string, w *Webhook) ([]Delivery, error) {
	list, err := s.deliveriesSince(ctx, namespace, w.ID, w.revision)
	for i := range list {
		list[i].Owner = ""
	}
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b Delivery) int { return b.Changed.Compare(a.Changed) })
	return list, err
}

// A PendingError means that a delivery cannot be retried because it is still pending.
type PendingError struct{ Next time.Time }

func (e *PendingError) Error() string {
	return "The delivery is pending; the next attempt is at " + e.Next.Format(time.RFC3339)
}

// Retry sends a delivery again. number is the Number of the delivery or, if that is 0, its Revision. The error is
// control.ErrNotFound if there is no such delivery, or a *PendingError.
func (s *Service) Retry(ctx context.Context, namespace string, w *Webhook, number int64) (Delivery, error) {
	if number < w.revision {
		return Delivery{}, control.ErrNotFound
	}
	d, err := s.load(ctx, namespace, w.ID, number)
	if err != nil {
		return Delivery{}, err
	}
	if d.State == Pending {
		return Delivery{}, &PendingError{d.Next}
	}
	d.State, d.Attempts, d.Next, d.Owner = Pending, 0, s.now().UTC(), s.id
	if err := s.store(ctx, &d); err != nil {
		return Delivery{}, err
	}
	s.push(d)
	d.Owner = ""
	return d, nil
}

// bucket returns the name of the bucket in which the deliveries of a webhook are stored as states.
func bucket(namespace, id string) string { return "delivery/" + namespace + "/" + id }

// stateID returns the ID of a delivery in its bucket. It is padded, so that IDs sort like numbers.
func stateID(number int64) string { return fmt.Sprintf("%019d", number) }

// number identifies a delivery among the deliveries of its webhook. It is the revision, except for alerts.
func (d *Delivery) number() int64 { return cmp.Or(d.Number, d.Revision) }

// key identifies a delivery among all deliveries.
func (d *Delivery) key() string {
	return d.Namespace + "/" + d.Webhook + "/" + strconv.FormatInt(d.number(), 10)
}

// load reads a delivery, or returns control.ErrNotFound.
func (s *Service) load(ctx context.Context, namespace, id string, number int64) (d Delivery, err error) {
	state, err := s.db.GetState(ctx, bucket(namespace, id), stateID(number))
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(state.Body, &d); err != nil {
		return d, fmt.Errorf("read delivery %d of webhook %s: %w", number, id, err)
	}
	return d, nil
}

// store writes the current state of a delivery.
func (s *Service) store(ctx context.Context, d *Delivery) error {
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return s.db.PutState(ctx, control.State{
		Bucket: bucket(d.Namespace, d.Webhook), ID: stateID(d.number()), Body: body, Expires: s.now().Add(s.options.Keep),
	})
}

// remove deletes a delivery from the database.
func (s *Service) remove(ctx context.Context, d *Delivery) error {
	return ignoreNotFound(s.db.DeleteState(ctx, bucket(d.Namespace, d.Webhook), stateID(d.number())))
}

// deliveriesSince returns the deliveries of a webhook after a revision, earliest first. Callers pass the revision that
// created the webhook, because earlier deliveries belong to a deleted webhook with the same ID.
func (s *Service) deliveriesSince(ctx context.Context, namespace, id string, revision int64) ([]Delivery, error) {
	states, err := s.db.States(ctx, bucket(namespace, id), 2*maxDeliveries)
	if err != nil {
		return nil, err
	}
	list := make([]Delivery, 0, len(states))
	for i := range states {
		var d Delivery
		if err := json.Unmarshal(states[i].Body, &d); err != nil {
			return nil, fmt.Errorf("read delivery %s of webhook %s: %w", states[i].ID, id, err)
		}
		// A delivery of an alert has the latest revision, which may be the one that created the webhook.
		if d.Revision > revision || d.Number != 0 && d.Revision == revision {
			list = append(list, d)
		}
	}
	return list, nil
}

// removeOldest deletes the oldest deliveries of a webhook that has more than maxDeliveries.
func (s *Service) removeOldest(ctx context.Context, namespace, id string) error {
	list, err := s.deliveriesSince(ctx, namespace, id, 0)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b Delivery) int { return a.Changed.Compare(b.Changed) })
	for i := range max(0, len(list)-maxDeliveries) {
		s.mu.Lock()
		delete(s.queue, list[i].key())
		s.mu.Unlock()
		if err := s.remove(ctx, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// deleteDeliveries deletes the deliveries of a deleted webhook and its last announced revision, so that a new webhook
// with the same ID starts without them.
func (s *Service) deleteDeliveries(ctx context.Context, namespace, id string) error {
	s.mu.Lock()
	for key, d := range s.queue {
		if d.Namespace == namespace && d.Webhook == id {
			delete(s.queue, key)
		}
	}
	s.mu.Unlock()
	errs := []error{ignoreNotFound(s.db.DeleteState(ctx, announcedBucket, namespace+"/"+id))}
	list, err := s.deliveriesSince(ctx, namespace, id, 0)
	for i := range list {
		errs = append(errs, s.remove(ctx, &list[i]))
	}
	return errors.Join(append(errs, err)...)
}
