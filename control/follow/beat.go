package follow

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/remote"
)

// Bounds of how often a heartbeat is sent, whatever the service asks for, and how long one may take.
const (
	leastBeat   = time.Second
	mostBeat    = 5 * time.Minute
	beatTimeout = 5 * time.Second
	// farewell is how long, once the node stops, what it has to say may take.
	farewell = time.Second
	// soon is by when the service is told of rules that came into force, by chance so that not all nodes do it at once.
	soon = 300 * time.Millisecond
)

// heartbeats says how the node is, again and again, and soon after it has other rules; and, when ctx ends, that it stops. A
// heartbeat that is under way then is let come to its end, so that it does not arrive after the last word.
func (f *Follower) heartbeats(ctx context.Context) {
	speaking, hush := context.WithCancel(context.WithoutCancel(ctx))
	defer hush()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(farewell, hush) })()
	f.speak(ctx, speaking)
	if err := f.config.Source.Leave(speaking, f.Node()); err != nil {
		f.log.Debug("the rules service was not told that this node stops", "err", err.Error())
	}
}

// speak sends heartbeats until ctx ends, each of them within speaking.
func (f *Follower) speak(ctx, speaking context.Context) {
	next := time.Duration(0)
	var refused string
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-f.beat:
			if !pause(ctx, rand.N(soon)) {
				return
			}
		case <-timer.C:
		}
		every := f.heartbeat(speaking, &refused)
		next = every*9/10 + rand.N(every/5)
	}
}

// pause waits, and is false if ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// heartbeat sends one and returns when the next is due. Refused is why the one before was, which is told once.
func (f *Follower) heartbeat(ctx context.Context, refused *string) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	latest, every, err := f.config.Source.Beat(ctx, f.Node())
	if err != nil {
		level := slog.LevelDebug // that it is away was told by who fetches rules
		var answer *remote.Error
		if errors.As(err, &answer) && answer.Status/100 == 4 && err.Error() != *refused {
			level, *refused = slog.LevelWarn, err.Error()
		}
		f.log.Log(ctx, level, "the rules service did not take the heartbeat", "err", err.Error())
		return DefaultHeartbeat
	}
	*refused = ""
	if latest > f.Status().Revision {
		f.Poke()
	}
	if every == 0 {
		return DefaultHeartbeat
	}
	return min(max(every, leastBeat), mostBeat)
}

// Node returns what a heartbeat says.
func (f *Follower) Node() control.Node {
	n := f.config.Node()
	s := f.Status()
	n.Namespace, n.Revision, n.LagMS, n.FromDisk = s.Namespace, s.Revision, s.Lag.Milliseconds(), s.FromDisk
	n.Error = s.Refused
	return n
}
