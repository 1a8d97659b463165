package transport

import (
	"context"
	"slices"
	"time"
)

// A budget is the known state of one key. The Transport's lock guards it.
type budget struct {
	key          string
	underway     int           // requests without a response
	pause        time.Time     // nothing is sent before
	probing      bool          // after a pause: one request at a time, until one is served
	windows      []window      // remaining quotas, as far as they are known
	lastResponse time.Time     // time of the last response with limits
	lastRequest  time.Time     // time of the last request
	changed      chan struct{} // closed and replaced when something changes
}

// awaitBudget waits until a request may be sent. It returns nil for a request without a budget.
func (t *Transport) awaitBudget(ctx context.Context, key string, start time.Time) (*budget, error) {
	for {
		now := time.Now()
		t.mu.Lock()
		b := t.find(key, now)
		if b == nil {
			t.mu.Unlock()
			return nil, nil
		}
		wait := b.wait(now)
		if wait == 0 {
			b.countRequest(now)
			t.mu.Unlock()
			return b, nil
		}
		changed := b.changed
		t.mu.Unlock()
		err := t.waitFor(ctx, start, wait, &LimitedError{Key: key, Server: true, RetryAfter: wait}, changed)
		if err != nil {
			return nil, err
		}
	}
}

// find returns the budget of a key, nil if there is no room for it.
func (t *Transport) find(key string, now time.Time) *budget {
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

// evictIdle makes room by removing an idle budget. It examines only a few.
func (t *Transport) evictIdle(now time.Time) bool {
	const maxCompared = 32
	looked := 0
	for key, b := range t.budgets {
		if b.idle(now) {
			delete(t.budgets, key)
			return true
		}
		if looked++; looked == maxCompared {
			break
		}
	}
	return false
}

// probingFor is how long after a pause a budget remembers to probe. Budgets of servers that are never called again must
// be removed.
const probingFor = time.Minute

// idle reports whether a budget has no effect any more.
func (b *budget) idle(now time.Time) bool {
	if b.underway > 0 || b.pause.After(now) {
		return false
	}
	if b.probing && (now.Sub(b.pause) < probingFor || now.Sub(b.lastRequest) < probingFor) {
		return false
	}
	return !slices.ContainsFunc(b.windows, func(w window) bool { return w.until.After(now) })
}

// probeWait is how long to wait for the probe. Its response wakes waiting requests earlier.
const probeWait = time.Second

// wait returns how long to wait before the next request, 0 if it may be sent.
func (b *budget) wait(now time.Time) time.Duration {
	wait := b.pause.Sub(now)
	if wait <= 0 && b.probing && b.underway > 0 {
		wait = probeWait
	}
	for i := range b.windows {
		if w := &b.windows[i]; w.remaining <= 0 && w.until.After(now) {
			wait = max(wait, w.until.Sub(now))
		}
	}
	return max(wait, 0)
}

// countRequest counts a request that is sent.
func (b *budget) countRequest(now time.Time) {
	b.underway++
	b.lastRequest = now
	current := b.windows[:0]
	for _, w := range b.windows {
		if !w.until.After(now) && !b.renew(&w, now) {
			continue
		}
		w.remaining--
		current = append(current, w)
	}
	b.windows = current
}

// renew begins the next window of a quota without a response, and reports whether there is anything to count. If its
// size is unknown, one request probes first instead of all waiting ones.
func (b *budget) renew(w *window, now time.Time) bool {
	if w.quota == 0 {
		b.probing = b.probing || w.remaining <= 0
		return false
	}
	w.remaining, w.until = w.quota, now.Add(w.span)
	return w.span > 0
}

// release records that a request has its response, and its limits; nil if it has none.
func (t *Transport) release(b *budget, sent time.Time, s *limitInfo) {
	if b == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b.underway--
	if s != nil {
		b.learn(sent, time.Now(), s)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// learn updates the budget from a response. Requests under way may or may not be counted in it, so they are counted
// again: better too few are sent than too many.
func (b *budget) learn(sent, now time.Time, s *limitInfo) {
	if s.pause > 0 {
		if until := now.Add(s.pause); until.After(b.pause) {
			b.pause = until
		}
		b.probing = true
	} else if !s.refused {
		b.probing = false
	}
	if len(s.windows) == 0 {
		return
	}
	// The response to a request that was sent before the last response came may be older than that.
	older := sent.Before(b.lastResponse)
	b.lastResponse = now
	for i := range s.windows {
		w := s.windows[i]
		w.remaining -= int64(b.underway)
		current := b.window(w.name)
		if current != nil && older && current.until.After(now) && current.remaining < w.remaining {
			continue
		} else if current != nil {
			*current = w
			continue
		}
		if len(b.windows) < maxWindows {
			b.windows = append(b.windows, w)
		}
	}
}

// window returns the state of a quota, nil if it is unknown.
func (b *budget) window(name string) *window {
	if i := slices.IndexFunc(b.windows, func(w window) bool { return w.name == name }); i >= 0 {
		return &b.windows[i]
	}
	return nil
}
