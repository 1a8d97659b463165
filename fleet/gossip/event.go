package gossip

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/fleet"
)

// A Event is something that happened among the hosts of a fleet.
type Event struct {
	Kind EventKind
	// Host is whom it is about: a name, or an address where that is all there is. It may be empty.
	Host string
	// Detail says more, in words.
	Detail string
	// Unsaid is how many of the same kind there were since the last that was told.
	Unsaid int64
}

// A EventKind says what happened.
type EventKind uint8

// The kinds of events. Those that somebody outside can cause are told once in ten seconds at most.
const (
	HostJoined    EventKind = iota // a host is there, or there again
	HostLost                       // a host is not heard any more; it still counts as known
	HostLeft                       // a host has said farewell
	HostForgotten                  // a host was silent for so long that it does not count any more
	NotJoined                      // nobody that was to be joined answers; it is tried again
	WrongKey                       // a host has another encryption key, or none
	OtherCluster                   // a host of a cluster with another name has spoken to this one
	OtherSecret                    // a host of a cluster with the same name hashes keys with another secret
	NameTaken                      // two hosts have the same name; the one that came first keeps it while it lives
	BadPacket                      // a packet made no sense
	Resumed                        // this host stood still for some time; others may have missed it
	Trouble                        // something else the network says
	HostClockOff                   // the date of a host, maybe this one, is not that of most; it goes by theirs
	OtherVersion                   // a host of this fleet writes packets of another version
	eventKinds
)

var eventTexts = [eventKinds]string{
	HostJoined:    "host joined",
	HostLost:      "host lost, still counted as known",
	HostLeft:      "host left",
	HostForgotten: "host forgotten after long silence",
	NotJoined:     "nobody to join answers, trying again",
	WrongKey:      "a host has another encryption key or none: not listened to",
	OtherCluster:  "a host of another cluster speaks to this one: not listened to",
	OtherSecret:   "a cluster of the same name has another key secret: not listened to",
	NameTaken:     "two hosts have the same name: the later one is not listened to",
	BadPacket:     "a packet made no sense",
	Resumed:       "this host stood still, joining again",
	Trouble:       "trouble on the gossip network",
	HostClockOff:  "the date of a host is not that of most: windows go by theirs",
	OtherVersion:  "a host has another version of Headgate that this one does not understand: not listened to",
}

func (k EventKind) String() string {
	if int(k) < len(eventTexts) {
		return eventTexts[k]
	}
	return "unknown"
}

// noisy kinds can be caused by anyone who can send a packet.
func (k EventKind) noisy() bool { return k >= NotJoined && k != Resumed && k != HostClockOff }

const (
	eventQueue    = 64
	eventInterval = 10 * time.Second
)

// A notifier passes events on, in order, by one goroutine.
type notifier struct {
	clock   fleet.Clock
	onEvent func(Event)

	mu         sync.Mutex
	last       [eventKinds]time.Duration // when one was told
	notified   [eventKinds]bool
	suppressed [eventKinds]int64
	closed     bool
	events     chan Event

	counts  [eventKinds]atomic.Int64
	done    chan struct{}
	dropped atomic.Int64
}

func newNotifier(clock fleet.Clock, to func(Event)) *notifier {
	if to == nil {
		to = logEvent
	}
	h := &notifier{clock: clock, onEvent: to, events: make(chan Event, eventQueue), done: make(chan struct{})}
	go func() {
		defer close(h.done)
		for e := range h.events {
			h.onEvent(e)
		}
	}()
	return h
}

// logEvent is the default of GossipOptions.OnEvent.
func logEvent(e Event) {
	level := slog.LevelInfo
	if e.Kind.noisy() || e.Kind == HostLost || e.Kind == HostClockOff {
		level = slog.LevelWarn
	}
	attrs := []any{}
	if e.Host != "" {
		attrs = append(attrs, "host", e.Host)
	}
	if e.Detail != "" {
		attrs = append(attrs, "detail", e.Detail)
	}
	if e.Unsaid > 0 {
		attrs = append(attrs, "unsaid", e.Unsaid)
	}
	slog.Log(context.Background(), level, "gossip: "+e.Kind.String(), attrs...)
}

// notify queues an event. It never waits.
func (h *notifier) notify(kind EventKind, host, detail string) {
	h.counts[kind].Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	now := h.clock.Now()
	if kind.noisy() && h.notified[kind] && now-h.last[kind] < eventInterval {
		h.suppressed[kind]++
		return
	}
	select {
	case h.events <- Event{Kind: kind, Host: host, Detail: detail, Unsaid: h.suppressed[kind]}:
		h.notified[kind], h.last[kind], h.suppressed[kind] = true, now, 0
	default:
		h.dropped.Add(1)
	}
}

// close passes on what there is and ends.
func (h *notifier) close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.events)
	}
	h.mu.Unlock()
	<-h.done
}
