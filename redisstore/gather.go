package redisstore

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
)

// maxGathered is the maximum number of keys in a call.
const maxGathered = 64

// A gatherer combines grants that goroutines request at the same moment into one call of grant.lua. It does the same
// for units that they give back. A node with many keys of moderate rate requests a few units for each key, many times a
// second. One call for many keys costs the server far less than one call for each key.
type gatherer struct {
	mu   sync.Mutex
	next map[*script]*gatheredCall // calls that still accept keys
}

// A gatheredCall is a call for several keys.
type gatheredCall struct {
	op         string
	keys, args []string
	callers    atomic.Int64       // callers that wait for the reply
	cancel     context.CancelFunc // called when no caller waits for the reply any more
	done       chan struct{}

	// replies and err are set before done is closed. The replies are in the order of keys. An empty reply means that the
	// key failed and needs a call of its own.
	replies []string
	err     error
}

// add adds a key and its argument, and returns the key's index.
func (call *gatheredCall) add(key, arg string) int {
	call.keys, call.args = append(call.keys, key), append(call.args, arg)
	call.callers.Add(1)
	return len(call.keys) - 1
}

// runGathered runs a grant.lua script for a key, alone or together with the keys of other goroutines. All calls with
// the same script have the same op. The result is the part of the reply about this key, as splitGathered returns it.
func (s *Store) runGathered(ctx context.Context, sc *script, op, key, arg string) (string, error) {
	if s.client.Clustered() { // keys of different slots cannot be in one call
		return s.runAlone(ctx, sc, op, key, arg)
	}
	g := &s.gatherer
	g.mu.Lock()
	if call := g.next[sc]; call != nil && len(call.keys) < maxGathered {
		i := call.add(key, arg)
		g.mu.Unlock()
		return s.awaitGathered(ctx, sc, call, i)
	}
	call := &gatheredCall{op: op, done: make(chan struct{})}
	call.add(key, arg)
	if g.next == nil {
		g.next = make(map[*script]*gatheredCall)
	}
	g.next[sc] = call
	g.mu.Unlock()
	runtime.Gosched() // lets goroutines that are about to make the same call add their keys
	g.mu.Lock()
	if g.next[sc] == call { // otherwise call is full, and another call has replaced it
		delete(g.next, sc)
	}
	g.mu.Unlock()
	if len(call.keys) == 1 {
		return s.runAlone(ctx, sc, op, key, arg)
	}
	var callCtx context.Context
	callCtx, call.cancel = context.WithCancel(s.background.Context()) // not called before this goroutine waits, too
	if !s.background.Start(func() { s.sendGathered(callCtx, sc, call) }) {
		call.err = headgate.ErrClosed
		close(call.done)
	}
	return s.awaitGathered(ctx, sc, call, 0)
}

// sendGathered sends a call for several keys. callCtx ends when no caller waits for the reply any more.
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

// awaitGathered waits for the reply about one key of a call.
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

// outcomeKeyFailed is the outcome of one key that failed in a call for several keys.
const outcomeKeyFailed = 3

// splitGathered splits the reply to a call into a reply for each key: the time, the outcome, the state, and the units.
// The reply for a key that failed is empty.
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
		state, unitsAndRest, err := cutState(rest[1:])
		if err != nil || len(unitsAndRest) < numberSize {
			return nil, errMalformed
		}
		if outcome[0] != outcomeKeyFailed {
			replies[i] = now + outcome + state + unitsAndRest[:numberSize]
		}
		rest = unitsAndRest[numberSize:]
	}
	if rest != "" {
		return nil, errMalformed
	}
	return replies, nil
}
