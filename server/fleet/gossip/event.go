package gossip

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// An Event is something that happened in a fleet.
type Event struct {
	Kind EventKind
	// Host is the host concerned: a name, or an address if only that is known. It may be empty.
	Host string
	// Detail describes the event further. It may be empty.
	Detail string
	// Suppressed is the number of events of this kind that were not reported since the last one that was.
	Suppressed int64
}

// An EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events. Kinds that hosts outside the fleet can cause are reported at most once in 10 s; see noisy, which
// depends on the order.
const (
	PeerJoined    EventKind = iota // a peer joined or returned
	PeerLost                       // a peer is silent; it still counts as known
	PeerLeft                       // a peer left
	PeerForgotten                  // a peer was silent for so long that it is no longer known
	NotJoined                      // no host to join responds; joining is retried
	WrongKey                       // a host has another encryption key, or none
	OtherCluster                   // a host of a cluster with another name sent something
	OtherSecret                    // a host of a cluster with the same name has another key secret
	NameTaken                      // two hosts have the same name; the second one is ignored while the first one is live
	BadPacket                      // a packet is malformed
	Resumed                        // this host was stopped for some time, and other hosts may consider it lost
	NetworkError                   // another network error
	HostClockOff                   // the clock of a host, maybe this one, differs from the median, which windows use
	OtherVersion                   // a host of this fleet sends packets of another version
	eventKinds
)

var eventTexts = [eventKinds]string{
	PeerJoined:    "host joined",
	PeerLost:      "host lost, still counted as known",
	PeerLeft:      "host left",
	PeerForgotten: "host forgotten after long silence",
	NotJoined:     "no host to join responds, trying again",
	WrongKey:      "ignoring a host with another encryption key or none",
	OtherCluster:  "ignoring a host of another cluster",
	OtherSecret:   "ignoring a cluster of the same name with another key secret",
	NameTaken:     "two hosts have the same name, ignoring the later one",
	BadPacket:     "malformed packet",
	Resumed:       "this host was stopped, joining again",
	NetworkError:  "error on the gossip network",
	HostClockOff:  "the clock of a host differs from the other clocks, windows use the median",
	OtherVersion:  "ignoring a host with another version of Headgate",
}

func (k EventKind) String() string {
	if int(k) < len(eventTexts) {
		return eventTexts[k]
	}
	return "unknown"
}

// noisy reports whether hosts outside the fleet can cause the event by sending packets. These events are limited.
func (k EventKind) noisy() bool { return k >= NotJoined && k != Resumed && k != HostClockOff }

const (
	eventQueue    = 64
	eventInterval = 10 * time.Second
)

// A notifier calls onEvent with events, in order, in one goroutine.
type notifier struct {
	clock   clock.Stopwatch
	onEvent func(Event)

	mu         sync.Mutex
	last       [eventKinds]time.Duration // when an event of each kind was last reported
	notified   [eventKinds]bool
	suppressed [eventKinds]int64
	closed     bool
	events     chan Event

	counts  [eventKinds]atomic.Int64
	done    chan struct{}
	dropped atomic.Int64
}

func newNotifier(clock clock.Stopwatch, onEvent func(Event)) *notifier {
	if onEvent == nil {
		onEvent = logEvent
	}
	n := &notifier{clock: clock, onEvent: onEvent, events: make(chan Event, eventQueue), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		for e := range n.events {
			n.onEvent(e)
		}
	}()
	return n
}

// logEvent is the default of Options.OnEvent.
func logEvent(e Event) {
	level := slog.LevelInfo
	if e.Kind.noisy() || e.Kind == PeerLost || e.Kind == HostClockOff {
		level = slog.LevelWarn
	}
	attrs := []any{}
	if e.Host != "" {
		attrs = append(attrs, "host", e.Host)
	}
	if e.Detail != "" {
		attrs = append(attrs, "detail", e.Detail)
	}
	if e.Suppressed > 0 {
		attrs = append(attrs, "suppressed", e.Suppressed)
	}
	slog.Log(context.Background(), level, "gossip: "+e.Kind.String(), attrs...)
}

// notify queues an event. It never waits.
func (n *notifier) notify(kind EventKind, host, detail string) {
	n.counts[kind].Add(1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	now := n.clock.Elapsed()
	if kind.noisy() && n.notified[kind] && now-n.last[kind] < eventInterval {
		n.suppressed[kind]++
		return
	}
	select {
	case n.events <- Event{Kind: kind, Host: host, Detail: detail, Suppressed: n.suppressed[kind]}:
		n.notified[kind], n.last[kind], n.suppressed[kind] = true, now, 0
	default:
		n.dropped.Add(1)
	}
}

// close stops the notifier after onEvent was called with all queued events.
func (n *notifier) close() {
	n.mu.Lock()
	if !n.closed {
		n.closed = true
		close(n.events)
	}
	n.mu.Unlock()
	<-n.done
}
