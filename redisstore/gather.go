package redisstore

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
)

// maxGathered is how many keys a call has at most.
const maxGathered = 64

// A gatherer sends the grants, and the units given back, that goroutines request at the same moment as one call of
// grant.lua. A node with many keys of moderate rate requests a few units for each, many times a second: one call for
// many keys costs a server far less than one for each.
type gatherer struct {
	mu   sync.Mutex
	next map[*script]*gatheredCall // that are not sent yet
}

// A gatheredCall is a call for several keys.
type gatheredCall struct {
	op         string
	keys, args []string
	callers    atomic.Int64 // that wait
	cancel     context.CancelFunc
	done       chan struct{}

	replies []string // by key, when done; "" if the key must be asked for alone
	err     error
}

// add adds a key, and returns its index.
func (call *gatheredCall) add(key, arg string) int {
	call.keys, call.args = append(call.keys, key), append(call.args, arg)
	call.callers.Add(1)
	return len(call.keys) - 1
}

// runGathered runs a script of grant.lua for a key, alone or with others. A script has one op. The reply is that for
// one key; see splitGathered.
func (s *Store) runGathered(ctx context.Context, sc *script, op, key, arg string) (string, error) {
	if s.client.Clustered() { // where keys of different slots cannot be in one call
		return s.runAlone(ctx, sc, op, key, arg)
	}
	q := &s.gatherer
	q.mu.Lock()
	if call := q.next[sc]; call != nil && len(call.keys) < maxGathered {
		i := call.add(key, arg)
		q.mu.Unlock()
		return s.awaitGathered(ctx, sc, call, i)
	}
	call := &gatheredCall{op: op, done: make(chan struct{})}
	call.add(key, arg)
	if q.next == nil {
		q.next = make(map[*script]*gatheredCall)
	}
	q.next[sc] = call
	q.mu.Unlock()
	runtime.Gosched() // the others that are about to make the same call add their keys
	var callCtx context.Context
	q.mu.Lock()
	if q.next[sc] == call {
		delete(q.next, sc)
	}
	callCtx, call.cancel = context.WithCancel(s.background.Context())
	q.mu.Unlock()
	if len(call.keys) == 1 {
		call.cancel()
		return s.runAlone(ctx, sc, op, key, arg)
	}
	if !s.background.Start(func() { s.sendGathered(callCtx, sc, call) }) {
		call.err = headgate.ErrClosed
		close(call.done)
	}
	return s.awaitGathered(ctx, sc, call, 0)
}

// sendGathered sends a call for several keys. It ends when no caller waits any more.
func (s *Store) sendGathered(callCtx context.Context, sc *script, call *gatheredCall) {
	defer close(call.done)
	defer call.cancel()
	args := append(make([]string, 0, 2+len(call.args)), call.op)
	reply, err := s.run(callCtx, sc, call.keys, s.withTime(append(args, call.args...)))
	if err == nil {
		call.replies, err = splitGathered(reply, len(call.keys))
	}
	call.err = err
}

// awaitGathered waits for the reply for a key of a call.
func (s *Store) awaitGathered(ctx context.Context, sc *script, call *gatheredCall, i int) (string, error) {
	select {
	case <-call.done:
	case <-ctx.Done():
		if call.callers.Add(-1) == 0 {
			call.cancel()
		}
		return "", s.explain(ctx.Err(), call.keys[i])
	}
	switch {
	case call.err != nil:
		return "", call.err
	case call.replies[i] == "":
		return s.runAlone(ctx, sc, call.op, call.keys[i], call.args[i])
	}
	return call.replies[i], nil
}

// runAlone runs the script for one key.
func (s *Store) runAlone(ctx context.Context, sc *script, op, key, arg string) (string, error) {
	reply, err := s.run(ctx, sc, []string{key}, s.withTime([]string{op, arg}))
	if err != nil {
		return "", err
	}
	replies, err := splitGathered(reply, 1)
	if err != nil {
		return "", err
	}
	return replies[0], nil
}

// failedAmongOthers is the outcome of a key that has failed in a call for several.
const failedAmongOthers = 3

// splitGathered splits the reply to a call into replies for each key: the time, the outcome, the state, and the units.
// The reply for a key that has failed is empty.
func splitGathered(reply string, keys int) ([]string, error) {
	if len(reply) < numberSize {
		return nil, errMalformed
	}
	now, rest := reply[:numberSize], reply[numberSize:]
	replies := make([]string, keys)
	for i := range replies {
		if len(rest) == 0 {
			return nil, errMalformed
		}
		outcome := rest[:1]
		state, otherStates, err := cutState(rest[1:])
		if err != nil || len(otherStates) < numberSize {
			return nil, errMalformed
		}
		if outcome[0] != failedAmongOthers {
			replies[i] = now + outcome + state + otherStates[:numberSize]
		}
		rest = otherStates[numberSize:]
	}
	if rest != "" {
		return nil, errMalformed
	}
	return replies, nil
}
