package transport

import (
	"context"
	"slices"
	"time"
)

// A budget has the server's limits for one key, as far as responses have reported them. Transport.mu guards it.
type budget struct {
	key          string
	inFlight     int           // the number of requests that have no response yet
	pauseEnd     time.Time     // no request is sent before this time
	probing      bool          // after a pause: send one request at a time, until the server accepts one
	windows      []window      // the known quotas
	lastResponse time.Time     // time of the last response with limits
	lastRequest  time.Time     // time of the last request
	changed      chan struct{} // closed and replaced after each response
}

// awaitBudget waits until the server's limits allow a request, and counts it. It returns nil if there is no room for a
// budget of the key.
func (t *Transport) awaitBudget(ctx context.Context, key string, start time.Time) (*budget, error) {
	for {
		now := time.Now()
		t.mu.Lock()
		b := t.budgetFor(key, now)
		if b == nil {
			t.mu.Unlock()
			return nil, nil
		}
		duration := b.waitTime(now)
		if duration == 0 {
			b.countRequest(now)
			t.mu.Unlock()
			return b, nil
		}
		changed := b.changed
		t.mu.Unlock()
		tooLong := &LimitedError{Key: key, Server: true, RetryAfter: duration}
		if err := t.waitFor(ctx, wait{start: start, duration: duration, tooLong: tooLong, changed: changed}); err != nil {
			return nil, err
		}
	}
}

// budgetFor returns the budget of a key, and creates it if necessary. It returns nil if MaxKeys budgets are in use.
func (t *Transport) budgetFor(key string, now time.Time) *budget {
	if b := t.budgets[key]; b != nil {
		return b
	}
	if len(t.budgets) >= t.options.MaxKeys && !t.evictIdle(now) {
		return nil
	}
	b := &budget{key: key, changed: make(chan struct{})}
	t.budgets[key] = b
	return b
}

// evictIdle makes room by removing an idle budget. It returns false if it finds none. It examines only a few, so that a
// request with a new key is not delayed.
func (t *Transport) evictIdle(now time.Time) bool {
	const maxExamined = 32
	examined := 0
	for key, b := range t.budgets {
		if b.isIdle(now) {
			delete(t.budgets, key)
			return true
		}
		examined++
		if examined == maxExamined {
			break
		}
	}
	return false
}

// probingTime is how long a probing budget stays in memory after its pause and after its last request. Without this
// bound, the budgets of servers that are never called again would stay forever.
const probingTime = time.Minute

// isIdle reports whether a budget has no effect any more.
func (b *budget) isIdle(now time.Time) bool {
	if b.inFlight > 0 || b.pauseEnd.After(now) {
		return false
	}
	if b.probing && (now.Sub(b.pauseEnd) < probingTime || now.Sub(b.lastRequest) < probingTime) {
		return false
	}
	return !slices.ContainsFunc(b.windows, func(w window) bool { return w.reset.After(now) })
}

// probeWait is how often a request that waits for the response to a probe checks its budget again.
const probeWait = time.Second

// waitTime returns how long to wait before the next request is sent. It is 0 if the request may be sent now.
func (b *budget) waitTime(now time.Time) time.Duration {
	duration := b.pauseEnd.Sub(now)
	if duration <= 0 && b.probing && b.inFlight > 0 {
		duration = probeWait
	}
	for i := range b.windows {
		if w := &b.windows[i]; w.remaining <= 0 && w.reset.After(now) {
			duration = max(duration, w.reset.Sub(now))
		}
	}
	return max(duration, 0)
}

// countRequest counts a request that is sent.
func (b *budget) countRequest(now time.Time) {
	b.inFlight++
	b.lastRequest = now
	current := b.windows[:0]
	for _, w := range b.windows {
		if !w.reset.After(now) && !b.renew(&w, now) {
			continue // drop the window
		}
		w.remaining--
		current = append(current, w)
	}
	b.windows = current
}

// renew starts the next window of a quota after its reset, before a response reports that window. It returns false if
// the new quota is unknown. If the old quota was used up, it then starts probing, so that one request is sent to learn
// the new quota instead of all waiting requests.
func (b *budget) renew(w *window, now time.Time) bool {
	if w.quota == 0 {
		b.probing = b.probing || w.remaining <= 0
		return false
	}
	w.remaining, w.reset = w.quota, now.Add(w.span)
	return w.span > 0
}

// requestDone records that a request, sent at the given time, has ended. info has the limits in its response, and is
// nil if there was no response.
func (t *Transport) requestDone(b *budget, sent time.Time, info *limitInfo) {
	if b == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b.inFlight--
	if info != nil {
		b.update(sent, time.Now(), info)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// update updates the budget with the limits in the response to a request that was sent at the given time. It is unknown
// whether the server has counted the requests in flight. The budget subtracts all of them, because sending too few
// requests is better than sending too many.
func (b *budget) update(sent, now time.Time, info *limitInfo) {
	if info.pause > 0 {
		if end := now.Add(info.pause); end.After(b.pauseEnd) {
			b.pauseEnd = end
		}
		b.probing = true
	} else if !info.refused {
		b.probing = false
	}
	if len(info.windows) == 0 {
		return
	}
	// Responses can arrive out of order. If this request was sent before the previous response arrived, this response may
	// be older than that.
	maybeOlder := sent.Before(b.lastResponse)
	b.lastResponse = now
	for i := range info.windows {
		w := info.windows[i]
		w.remaining -= int64(b.inFlight)
		current := b.window(w.name)
		switch {
		case current == nil:
			if len(b.windows) < maxWindows {
				b.windows = append(b.windows, w)
			}
		case maybeOlder && current.reset.After(now) && current.remaining < w.remaining: // current is more recent
		default:
			*current = w
		}
	}
}

// window returns the window with a name, or nil if it is unknown.
func (b *budget) window(name string) *window {
	if i := slices.IndexFunc(b.windows, func(w window) bool { return w.name == name }); i >= 0 {
		return &b.windows[i]
	}
	return nil
}
