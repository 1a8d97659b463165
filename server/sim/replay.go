package sim

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/server/accesslogs"
	"github.com/headgate/headgate/server/sim/scenario"
)

// A Log counts the lines and requests that were read of the access log of a source.
type Log struct {
	File string `json:"file"`
	accesslogs.Stats
}

// maxGroup is the maximum number of requests of one second. If the log has more, the rest follows in a further group.
const maxGroup = 1 << 20

// A replay reads the requests of an access log. If the times in the log are whole seconds, the replay spreads the
// requests of a second evenly over the second.
type replay struct {
	spec   *scenario.Source
	reader *accesslogs.Reader
	lines  logLines
	began  time.Time // time of the first request

	group   []string // clients of the requests of the second groupAt
	sent    int      // number of requests of group that were returned
	groupAt time.Time
}

func newReplay(spec *scenario.Source) (*replay, error) {
	reader, err := accesslogs.Open(spec.Log, nil, accesslogs.Options{Format: spec.LogFormat})
	if err != nil {
		return nil, fmt.Errorf("replay a log: %w", err)
	}
	return &replay{spec: spec, reader: reader, lines: logLines{reader: reader, key: spec.LogKey}}, nil
}

// request returns the time of the next request, since the beginning of the simulation, and its client. The error is
// io.EOF at the end of the log.
func (r *replay) request() (at time.Duration, client string, err error) {
	if r.sent == len(r.group) {
		if err := r.readGroup(); err != nil {
			return 0, "", err
		}
	}
	offset := r.groupAt.Sub(r.began) + time.Duration(r.sent)*time.Second/time.Duration(len(r.group))
	client = r.group[r.sent]
	r.sent++
	return r.startOf(offset), client, nil
}

// readGroup reads the requests of the next second, or one request if times have a fraction.
func (r *replay) readGroup() error {
	if err := r.skipOutliers(); err != nil {
		return err
	}
	r.group, r.sent, r.groupAt = r.group[:0], 0, r.lines.next().at
	for len(r.group) < maxGroup {
		r.group = append(r.group, r.lines.next().client)
		r.lines.remove()
		if err := r.lines.fill(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if r.groupAt.Nanosecond() != 0 || !r.lines.next().at.Equal(r.groupAt) {
			break
		}
	}
	return nil
}

// skipOutliers moves to the next line that can be used. It skips lines whose times are far from those around them, and
// lines after the end of the source that are followed by lines before it.
func (r *replay) skipOutliers() error {
	for {
		if err := r.lines.fill(); err != nil {
			return err
		}
		at := r.lines.next().at
		switch {
		case r.lines.isOutlier():
			r.lines.skip(errOutlier)
		case r.began.IsZero():
			r.began = at
		case r.isLate(at) && r.lines.contains(func(later time.Time) bool { return !r.isLate(later) }):
			r.lines.skip(errLate)
		default:
			return nil
		}
	}
}

// isLate reports whether a time in the log is after the end of the source.
func (r *replay) isLate(at time.Time) bool { return r.startOf(at.Sub(r.began)) >= r.spec.Until }

// startOf returns the simulated time of a request so long after the first one.
func (r *replay) startOf(offset time.Duration) time.Duration {
	return r.spec.From + time.Duration(float64(offset)/float64(r.spec.Speed))
}

// scheduleReplay schedules the next request of a log, if there is one.
func (s *source) scheduleReplay() {
	for {
		at, name, err := s.replay.request()
		if errors.Is(err, io.EOF) || err == nil && at >= s.spec.Until || s.isInterrupted() {
			return
		}
		if err != nil {
			s.world.fail(fmt.Errorf("replay %s: %w", s.spec.Log, err))
			return
		}
		client := hashKey(s.spec.Prefix + "-" + name)
		if !s.world.simulates(client) {
			continue
		}
		s.at = max(s.at, at) // lines may be slightly out of order
		s.world.loop.After(s.at-s.world.loop.Now(), func() {
			s.world.arrive(&request{source: s, client: client, name: name})
			s.scheduleReplay()
		})
		return
	}
}

// logs returns a Log for each access log of the scenario.
func (w *world) logs() []Log {
	var list []Log
	for _, r := range w.replays {
		list = append(list, Log{File: r.spec.Log, Stats: r.reader.Stats()})
	}
	return list
}
