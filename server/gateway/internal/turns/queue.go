package turns

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// perCore is the limit of turns for each core. This number of connections keeps a core busy, if clients and upstreams
	// respond promptly.
	perCore = 64
	// The cores count as busy if at least busyShare of their time is used, and as idle if less than idleShare is
	// used.
	busyShare = 0.9
	idleShare = 0.8
	// maxIdle is the number of consecutive calls of Adjust with idle cores after which the limit is raised or ends.
	maxIdle = 2
	// maxRaises is the number of times that the limit is doubled if cores are idle while connections wait. After that,
	// the limit ends.
	maxRaises = 4
	// freeTime is the time without a limit after even the largest limit has left cores idle.
	freeTime = 30 * time.Second

	// maxRequests is the number of requests in a turn.
	maxRequests = 8
	// maxTime is the maximum duration of a turn. A request that takes longer continues without a turn.
	maxTime = 50 * time.Millisecond
	// quickTime is the duration above which a request is slow. After a slow request, the next request of the connection
	// needs no turn: it probably also waits for a slow upstream, so it uses the caches little.
	quickTime = 10 * time.Millisecond
	// If the cores stay busy although no connection waits, the slow connections may be slow only because there are so
	// many of them, for example after a stall of the upstream. Then all of them need turns again, in a new round. This
	// costs some time if the upstream is really slow. So the first round begins after firstRound calls of Adjust, and
	// each further one after twice as many, up to maxRound.
	firstRound = 10
	maxRound   = 640
	// promptTime is the time after a response in which the client must send its next request to keep the turn.
	promptTime = 15 * time.Millisecond
	// fairWait limits the length of turns: if the first connection in the queue has waited for so long, turns end after
	// one request.
	fairWait = 150 * time.Millisecond
	// maxWait is the longest wait of a connection. After this time, the connection is served without a turn.
	maxWait = 200 * time.Millisecond
	// sweepInterval is the time between two sweeps, which end turns and waits that have lasted too long.
	sweepInterval = 5 * time.Millisecond
)

// A Queue gives turns to connections, in the order of their requests. The zero value is ready to use and has no limit.
// It is safe for concurrent use.
type Queue struct {
	limited atomic.Bool   // limit is not 0
	round   atomic.Uint32 // requests that began in earlier rounds do not count as slow; see firstRound

	mu        sync.Mutex
	limit     int       // maximum number of turns at the same time; 0 if there is no limit
	active    int       // number of turns
	idle      int       // consecutive calls of Adjust with idle cores
	freeUntil time.Time // there is no limit before this time
	bypassed  int       // consecutive calls of Adjust with busy cores, a limit, and no waiting connection
	nextRound int       // value of bypassed at which the next round begins
	settling  bool      // a round began at the last call of Adjust
	holders   list      // connections that have a turn; the oldest turn is first
	waiting   list      // connections that wait for a turn
	timer     *time.Timer
	armed     bool // timer runs

	waits   int64 // as in Stats
	overdue int64
}

// Stats describes a Queue.
type Stats struct {
	// Limit is the number of connections that may have a turn at the same time. It is 0 if there is no limit.
	Limit int
	// Active is the number of connections that have a turn.
	Active int
	// Waiting is the number of connections that wait for a turn.
	Waiting int
	// Waits counts the requests that had to wait, including those that wait now.
	Waits int64
	// Overdue counts the requests that were served without a turn, after the longest wait.
	Overdue int64
}

// Stats returns the current Stats of the queue.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{Limit: q.limit, Active: q.active, Waiting: q.waiting.length, Waits: q.waits, Overdue: q.overdue}
}

// Adjust adapts the limit to the load. busy is the share of the time of its cores that this process has used since
// the last call, from 0 to 1. Adjust must be called regularly. There is a limit while the cores are busy. If they
// become idle while connections wait, the limit is doubled. When the cores are busy again, it is lowered in small
// steps. If the cores are idle even with the largest limit, there is none for freeTime.
func (q *Queue) Adjust(busy float64) {
	least := perCore * runtime.GOMAXPROCS(0)
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if busy < idleShare && q.limit > 0 {
		q.idle++
	} else {
		q.idle = 0
	}
	switch {
	case q.idle == maxIdle && q.waiting.first == nil:
		q.limit, q.idle = 0, 0
	case q.idle == maxIdle && q.limit >= least<<maxRaises:
		q.limit, q.idle, q.freeUntil = 0, 0, now.Add(freeTime)
	case q.idle == maxIdle:
		q.limit, q.idle = 2*q.limit, 0
	case busy < busyShare:
	case q.limit > 0:
		q.limit = max(least, q.limit-q.limit/8)
	case !now.Before(q.freeUntil):
		q.limit = least
	}
	q.limited.Store(q.limit > 0)
	q.beginRound(busy)
	q.advance()
}

// beginRound begins a new round if it is time for one; see firstRound. mu is held.
func (q *Queue) beginRound(busy float64) {
	if q.settling { // so that no connection counts as slow because it competed with the requests of the last round
		q.settling = false
		q.round.Add(1)
	}
	q.nextRound = max(q.nextRound, firstRound)
	if q.limit == 0 || busy < idleShare || q.waiting.first != nil {
		q.bypassed, q.nextRound = 0, max(q.nextRound-1, firstRound)
		return
	}
	if q.bypassed++; q.bypassed >= q.nextRound {
		q.bypassed, q.nextRound, q.settling = 0, min(2*q.nextRound, maxRound), true
		q.round.Add(1)
	}
}

// advance gives turns to waiting connections. mu is held.
func (q *Queue) advance() {
	for q.waiting.first != nil && (q.limit == 0 || q.active < q.limit) {
		q.admit(time.Now())
	}
}

// admit gives a turn to the first waiting connection. mu is held.
func (q *Queue) admit(now time.Time) {
	t := q.waiting.first
	q.waiting.remove(t)
	q.grant(t, now)
	t.ready <- struct{}{}
}

// grant gives a turn to a connection. mu is held.
func (q *Queue) grant(t *Turn, now time.Time) {
	t.held, t.serving, t.left, t.since = true, true, maxRequests, now
	q.active++
	q.holders.add(t)
}

// wait waits for the turn of a connection, or for the end of the longest wait. mu is held, and wait unlocks it.
func (q *Queue) wait(t *Turn, now time.Time) {
	if t.ready == nil {
		t.ready = make(chan struct{}, 1)
	}
	t.since = now
	q.waiting.add(t)
	q.arm()
	q.mu.Unlock()
	<-t.ready
}

// end ends the turn of a connection. mu is held.
func (q *Queue) end(t *Turn) {
	t.held = false
	q.active--
	q.holders.remove(t)
}

// arm starts the timer of the next sweep if connections wait. mu is held.
func (q *Queue) arm() {
	if q.armed || q.waiting.first == nil {
		return
	}
	if q.armed = true; q.timer == nil {
		q.timer = time.AfterFunc(sweepInterval, q.sweep)
		return
	}
	q.timer.Reset(sweepInterval)
}

// sweep ends turns and waits that have lasted too long.
func (q *Queue) sweep() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = false
	now := time.Now()
	q.expire(now)
	q.advance()
	for t := q.waiting.first; t != nil && now.Sub(t.since) >= maxWait; t = q.waiting.first {
		q.waiting.remove(t)
		q.overdue++
		t.ready <- struct{}{}
	}
	q.arm()
}

// expire ends turns that have lasted too long. mu is held.
func (q *Queue) expire(now time.Time) {
	for t := q.holders.first; t != nil; {
		next := t.next
		if now.Sub(t.since) >= maxTime || !t.serving && now.Sub(t.responded) >= promptTime {
			q.end(t)
		}
		t = next
	}
}

// isLate reports whether the first connection in the queue has waited for fairWait. If so, turns end early. mu is held.
func (q *Queue) isLate(now time.Time) bool {
	return q.waiting.first != nil && now.Sub(q.waiting.first.since) >= fairWait
}
