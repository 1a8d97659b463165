package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/control"
)

// sendDue starts to send the deliveries that are due, while slots are free. It returns the time until the next is due.
func (c *courier) sendDue(ctx context.Context, slots chan struct{}) time.Duration {
	now := c.server.config.Now()
	wait := courierSweep
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, d := range c.queue {
		if left := d.Next.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			return wait // the send that frees a slot calls wakeUp
		}
		delete(c.queue, key)
		c.inFlight[key] = true
		c.sending.Go(func() {
			defer func() { <-slots; c.wakeUp() }()
			c.deliver(ctx, d)
		})
	}
	return wait
}

// deliver makes one attempt, and puts the delivery back in the queue if another is needed.
func (c *courier) deliver(ctx context.Context, d delivery) {
	again := c.attempt(ctx, &d)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inFlight, queueKey(&d))
	if again {
		c.queue[queueKey(&d)] = d
	}
}

// attempt tries to send a delivery and stores the result. It reports whether another attempt is needed.
func (c *courier) attempt(ctx context.Context, d *delivery) (again bool) {
	if d.Owner != c.owner {
		taken, err := c.takeOver(ctx, d)
		c.logFault(ctx, "cannot take over a delivery, retrying at the next sweep", err)
		if !taken {
			return false
		}
	}
	object, err := c.hook(ctx, d)
	if err == nil && object == nil {
		c.logFault(ctx, "cannot delete a delivery of a deleted webhook", c.drop(ctx, d))
		return false
	}
	now := c.server.config.Now().UTC()
	if err == nil {
		var hook storedHook
		if _, hook, err = hookOf(object); err == nil {
			d.Attempts++
			d.Last = now
			d.Status, err = c.post(ctx, &hook, d)
		}
	}
	if ctx.Err() != nil {
		return false // the stored delivery stays pending, for the next sweep of a server
	}
	if object, err := c.hook(ctx, d); err == nil && object == nil { // the webhook was deleted meanwhile
		c.logFault(ctx, "cannot delete a delivery of a deleted webhook", c.drop(ctx, d))
		return false
	}
	config := &c.server.config.Hooks
	switch {
	case err == nil:
		d.State, d.Error, d.Next = delivered, "", time.Time{}
	case d.Attempts >= config.Attempts || d.Status == http.StatusGone:
		d.State, d.Error, d.Next = dead, err.Error(), time.Time{}
		c.server.config.Logger.Error("rules service: a webhook was not delivered, and is kept as a dead letter",
			"namespace", d.Namespace, "webhook", d.Webhook, "revision", d.Revision, "err", d.Error)
	default:
		d.Error = err.Error()
		d.Next = now.Add(backoff(config, max(d.Attempts, 1)))
	}
	c.logFault(ctx, "cannot store the result of a delivery", c.save(ctx, d))
	return d.State == pending
}

// hook returns the webhook of a delivery, or nil if it was deleted. A webhook with the same ID that was created later than
// the delivery is not the same one.
func (c *courier) hook(ctx context.Context, d *delivery) (*control.Object, error) {
	object, err := c.server.config.DB.Get(ctx, d.Namespace, control.KindWebhook, d.Webhook)
	if errors.Is(err, control.ErrNotFound) || err == nil && object.Revision > d.Revision {
		return nil, nil
	}
	return object, err
}

// takeOver makes this server the owner of a delivery that another server should have sent by now. It reports whether the
// delivery was still unsent.
func (c *courier) takeOver(ctx context.Context, d *delivery) (bool, error) {
	state, err := c.server.config.DB.GetState(ctx, bucket(d.Namespace, d.Webhook), stateID(d.Revision))
	if errors.Is(err, control.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	var stored delivery
	if err := json.Unmarshal(state.Body, &stored); err != nil {
		return false, err
	}
	if stored.State != pending || stored.Attempts != d.Attempts || stored.Owner != d.Owner {
		return false, nil // another server has sent it or is sending it
	}
	*d = stored
	d.Owner = c.owner
	return true, c.save(ctx, d)
}

// backoff returns the time to wait after a number of failed attempts.
func backoff(config *HookConfig, attempts int) time.Duration {
	wait := config.MaxBackoff
	if shift := attempts - 1; shift < 30 && config.Backoff<<shift < wait && config.Backoff<<shift > 0 {
		wait = config.Backoff << shift
	}
	return wait + rand.N(wait/2+1) //nolint:gosec // it only has to differ
}

// post sends a webhook. It returns an error unless the status of the response is 2xx.
func (c *courier) post(ctx context.Context, hook *storedHook, d *delivery) (status int, err error) {
	body, err := json.Marshal(Hook{
		Event: "revision", Namespace: d.Namespace, Revision: d.Revision, Time: d.Changed, Delivery: hookName(d.Webhook, strconv.FormatInt(d.Revision, 10)),
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
	r.Header.Set(SignatureHeader, Sign([]byte(hook.Secret), body, c.server.config.Now()))
	response, err := c.client.Do(r)
	if err != nil {
		c.server.config.Logger.Debug("rules service: a webhook could not be sent", "namespace", d.Namespace, "webhook", d.Webhook, "err", err.Error())
		return 0, faultOf(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // so that the connection can be reused
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return response.StatusCode, fmt.Errorf("answered with %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	}
	return response.StatusCode, nil
}

// randomID returns an ID that no other server has.
func randomID() string { return newSecret()[:16] }
