package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/outbound"
	"github.com/headgate/headgate/server/control/signature"
)

// sendDue starts to send the deliveries that are due, as long as slots are free. It returns the time until the next
// delivery is due.
func (s *Service) sendDue(ctx context.Context, slots chan struct{}) time.Duration {
	now := s.now()
	wait := sweepInterval
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, d := range s.queue {
		if remaining := d.Next.Sub(now); remaining > 0 {
			wait = min(wait, remaining)
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			return wait // the request that frees a slot calls wakeUp
		}
		delete(s.queue, key)
		s.inFlight[key] = true
		s.sending.Go(func() {
			defer func() { <-slots; s.wakeUp() }()
			s.send(ctx, d)
		})
	}
	return wait
}

// send makes one attempt to send a delivery, and puts it back in the queue if another attempt is needed.
func (s *Service) send(ctx context.Context, d Delivery) {
	retry := s.attempt(ctx, &d)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inFlight, d.key())
	if retry {
		s.queue[d.key()] = d
	}
}

// attempt tries to send a delivery and stores the result. It reports whether another attempt is needed.
func (s *Service) attempt(ctx context.Context, d *Delivery) (retry bool) {
	if d.Owner != s.id {
		owned, err := s.takeOver(ctx, d)
		s.logError(ctx, "cannot take over a delivery, retrying at the next sweep", err)
		if !owned {
			return false
		}
	}
	hook, err := s.webhookOf(ctx, d)
	if err == nil && hook == nil {
		s.logError(ctx, "cannot delete a delivery of a deleted webhook", s.remove(ctx, d))
		return false
	}
	now := s.now().UTC()
	if err == nil {
		d.Attempts++
		d.Last = now
		d.Status, err = s.post(ctx, hook, d)
	}
	if ctx.Err() != nil {
		return false // the stored delivery stays pending, and the next sweep finds it
	}
	if object, err := s.webhookOf(ctx, d); err == nil && object == nil { // deleted during the request
		s.logError(ctx, "cannot delete a delivery of a deleted webhook", s.remove(ctx, d))
		return false
	}
	switch {
	case err == nil:
		d.State, d.Error, d.Next = Delivered, "", time.Time{}
	case d.Attempts >= s.options.Attempts || d.Status == http.StatusGone:
		d.State, d.Error, d.Next = Dead, err.Error(), time.Time{}
		s.logger.Error("rules service: a webhook was not delivered, and is kept as a dead letter",
			"namespace", d.Namespace, "webhook", d.Webhook, "delivery", d.number(), "err", d.Error)
	default:
		d.Error = err.Error()
		d.Next = now.Add(s.options.backoff(max(d.Attempts, 1)))
	}
	s.logError(ctx, "cannot store the result of a delivery", s.store(ctx, d))
	return d.State == Pending
}

// webhookOf returns the webhook of a delivery, or nil if it was deleted. If a webhook with the same ID was created
// after the delivery, the delivery belonged to a deleted one.
func (s *Service) webhookOf(ctx context.Context, d *Delivery) (*control.Object, error) {
	object, err := s.db.Get(ctx, d.Namespace, control.KindWebhook, d.Webhook)
	if errors.Is(err, control.ErrNotFound) || err == nil && object.Revision > d.Revision {
		return nil, nil
	}
	return object, err
}

// takeOver makes this process the owner of an overdue delivery of another process. It returns false if that process has
// sent the delivery.
func (s *Service) takeOver(ctx context.Context, d *Delivery) (bool, error) {
	stored, err := s.load(ctx, d.Namespace, d.Webhook, d.number())
	if err != nil {
		return false, ignoreNotFound(err)
	}
	if stored.State != Pending || stored.Attempts != d.Attempts || stored.Owner != d.Owner {
		return false, nil // another process has sent it or is sending it
	}
	*d = stored
	d.Owner = s.id
	return true, s.store(ctx, d)
}

// backoff returns the time to wait after a number of failed attempts.
func (o *Options) backoff(attempts int) time.Duration {
	wait := o.MaxBackoff
	if shift := attempts - 1; shift < 30 && o.Backoff<<shift < wait && o.Backoff<<shift > 0 {
		wait = o.Backoff << shift
	}
	return wait + rand.N(wait/2+1) // random, so that deliveries that failed together are not retried together
}

// post sends a delivery. It returns an error unless the status of the response is 2xx.
func (s *Service) post(ctx context.Context, object *control.Object, d *Delivery) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	hook, key, err := parse(object)
	if err != nil {
		return 0, err
	}
	body, err := json.Marshal(Event{
		Event: cmp.Or(d.Event, EventRevision), Namespace: d.Namespace, Revision: d.Revision, Time: d.Changed,
		Alert: d.Alert, Delivery: d.Webhook + "/" + strconv.FormatInt(d.number(), 10),
	})
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Headgate")
	r.Header.Set(signature.Header, signature.Sign([]byte(key), body, s.now()))
	response, err := s.client.Do(r)
	if err != nil {
		s.logger.Debug("rules service: a webhook could not be sent",
			"namespace", d.Namespace, "webhook", d.Webhook, "err", err.Error())
		return 0, outbound.PublicError(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // a connection is only reused if the body was read
	status = response.StatusCode
	if status < 200 || status > 299 {
		return status, fmt.Errorf("the response was %d %s", status, http.StatusText(status))
	}
	return status, nil
}
