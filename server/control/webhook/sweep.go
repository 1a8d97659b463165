package webhook

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/headgate/headgate/server/control"
)

const sweepInterval = time.Minute

// sweep takes over the deliveries of processes that have stopped, and creates missing deliveries.
func (s *Service) sweep(ctx context.Context) {
	const message = "cannot look for unsent deliveries, retrying at the next sweep"
	for hook, err := range control.All(ctx, s.db, control.Query{Kind: control.KindWebhook, Limit: 1000}) {
		if err == nil {
			err = s.sweepWebhook(ctx, hook)
		}
		s.logError(ctx, message, err)
	}
}

func (s *Service) sweepWebhook(ctx context.Context, hook *control.Object) error {
	list, err := s.deliveriesSince(ctx, hook.Namespace, hook.ID, hook.Revision)
	if err != nil {
		return err
	}
	now := s.now().UTC()
	grace := 2 * s.options.Timeout // if a delivery is overdue for longer, the process that owns it has stopped
	for _, d := range list {
		if d.State != Pending || s.isQueuedOrInFlight(&d) {
			continue
		}
		takeOverAt := d.Next.Add(grace)
		switch {
		case d.Owner == s.id && takeOverAt.Before(now): // it was sent, but the result could not be stored
			s.pushAbsent(d)
		case d.Owner == s.id: // it was sent, and the result may not be stored yet
		case takeOverAt.After(now):
			d.Next = takeOverAt
			s.pushAbsent(d) // at that time, attempt takes the delivery over if its owner has not sent it
		default:
			d.Next, d.Owner = now, s.id
			if err := s.store(ctx, &d); err != nil {
				return err
			}
			s.push(d)
		}
	}
	if !wants(hook, Revisions) {
		return nil
	}
	return s.createMissing(ctx, hook, now.Add(-grace))
}

// isQueuedOrInFlight reports whether a delivery is in the queue of this process or being sent by it.
func (s *Service) isQueuedOrInFlight(d *Delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, queued := s.queue[d.key()]
	return queued || s.inFlight[d.key()]
}

// createMissing creates the delivery of the latest change if there is none and the change is older than the given time.
// A delivery is missing if the process stopped between committing the change and creating the delivery.
func (s *Service) createMissing(ctx context.Context, hook *control.Object, before time.Time) error {
	_, revision, err := s.db.Revision(ctx, hook.Namespace)
	if err != nil {
		return err
	}
	announced, err := s.lastAnnounced(ctx, hook)
	if err != nil || revision <= announced {
		return err
	}
	query := control.LogQuery{Namespace: hook.Namespace, After: revision - 1, Before: revision + 1, Limit: 1}
	changes, err := s.db.Log(ctx, query)
	if err != nil || len(changes) == 0 || changes[0].Time.After(before) {
		return err
	}
	return s.createDelivery(ctx, hook.Namespace, hook.ID, change{revision, changes[0].Time})
}

// lastAnnounced returns the last revision for which a webhook has a delivery, or the revision that created the webhook.
func (s *Service) lastAnnounced(ctx context.Context, hook *control.Object) (int64, error) {
	state, err := s.db.GetState(ctx, announcedBucket, hook.Namespace+"/"+hook.ID)
	if errors.Is(err, control.ErrNotFound) {
		return hook.Revision, nil
	} else if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(state.Body), 10, 64)
	return max(hook.Revision, n), err
}
