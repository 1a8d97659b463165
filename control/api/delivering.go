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

// sendDue sends what is due, as far as there is room, and returns how long to wait for the next.
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
			return wait // who frees a place wakes us
		}
		delete(c.queue, key)
		c.under[key] = true
		c.sending.Go(func() {
			defer func() { <-slots; c.stir() }()
			c.deliver(ctx, d)
		})
	}
	return wait
}

// deliver makes one attempt, and keeps what came of it.
func (c *courier) deliver(ctx context.Context, d delivery) {
	again := c.attempt(ctx, &d)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.under, queueKey(&d))
	if again {
		c.queue[queueKey(&d)] = d
	}
}

// attempt tells whether another one is to be made.
func (c *courier) attempt(ctx context.Context, d *delivery) (again bool) {
	if d.Owner != c.owner {
		taken, err := c.takeOver(ctx, d)
		c.fault(ctx, "a delivery is looked at later", err)
		if !taken {
			return false
		}
	}
	object, err := c.hook(ctx, d)
	if err == nil && object == nil {
		c.fault(ctx, "a delivery of a webhook that is gone stays", c.drop(ctx, d))
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
		return false // it stays as it is, for whoever comes
	}
	if is, gone := c.hook(ctx, d); gone == nil && is == nil { // while it was sent
		c.fault(ctx, "a delivery of a webhook that is gone stays", c.drop(ctx, d))
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
	c.fault(ctx, "what became of a delivery is not kept", c.save(ctx, d))
	return d.State == pending
}

// hook returns the webhook of a delivery, nil if it is gone. One of the same id that was made since is another one.
func (c *courier) hook(ctx context.Context, d *delivery) (*control.Object, error) {
	object, err := c.server.config.DB.Get(ctx, d.Namespace, control.KindWebhook, d.Webhook)
	if errors.Is(err, control.ErrNotFound) || err == nil && object.Revision > d.Revision {
		return nil, nil
	}
	return object, err
}

// takeOver takes a delivery that another server should have sent by now, and has not.
func (c *courier) takeOver(ctx context.Context, d *delivery) (bool, error) {
	state, err := c.server.config.DB.GetState(ctx, bucket(d.Namespace, d.Webhook), stateID(d.Revision))
	if errors.Is(err, control.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	var is delivery
	if err := json.Unmarshal(state.Body, &is); err != nil {
		return false, err
	}
	if is.State != pending || is.Attempts != d.Attempts || is.Owner != d.Owner {
		return false, nil // it is being sent, or was
	}
	*d = is
	d.Owner = c.owner
	return true, c.save(ctx, d)
}

// backoff returns how long to wait after so many attempts.
func backoff(config *HookConfig, attempts int) time.Duration {
	wait := config.MaxBackoff
	if shift := attempts - 1; shift < 30 && config.Backoff<<shift < wait && config.Backoff<<shift > 0 {
		wait = config.Backoff << shift
	}
	return wait + rand.N(wait/2+1) //nolint:gosec // it only has to differ
}

// post sends a webhook. The error says why it was not taken.
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
	answer, err := c.client.Do(r)
	if err != nil {
		c.server.config.Logger.Debug("rules service: a webhook could not be sent", "namespace", d.Namespace, "webhook", d.Webhook, "err", err.Error())
		return 0, faultOf(err)
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.CopyN(io.Discard, answer.Body, 4<<10) // so that the connection can be used again; it is shown to nobody
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return answer.StatusCode, fmt.Errorf("answered with %d %s", answer.StatusCode, http.StatusText(answer.StatusCode))
	}
	return answer.StatusCode, nil
}

// cryptorand returns a name that no other server has.
func cryptorand() string { return newSecret()[:16] }
