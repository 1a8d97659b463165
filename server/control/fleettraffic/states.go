package fleettraffic

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// Statistics are stored as states in the database. Each hour of a namespace has a bucket. The ID of a state ends with
// the ID of the process that stored it, such as "3f2a":
//
//   - "07/3f2a" has minute 7 of the hour.
//   - "clients/3f2a" has the clients of the hour.
//   - "open/3f2a" has the minutes that were in progress at the last write, in case the process stops unexpectedly.
//
// Each minute of the last hour has another bucket, in which the state "3f2a" has the clients of the minute.

// A stateKey identifies a state of a namespace.
type stateKey struct {
	hour int64
	id   string
}

const (
	clientsID = "clients/"
	openID    = "open/"
	// maxStates is the maximum number of states of an hour that are read. Each process has about 60.
	maxStates = 5000
)

func bucketOf(name string, hour int64) string {
	return "traffic/" + time.Unix(hour, 0).UTC().Format("2006-01-02T15") + "/" + name
}

// minuteBucketOf returns the bucket of the clients of a minute. v0.1.0 does not read it.
func minuteBucketOf(name string, minute int64) string {
	return "traffic-clients/" + time.Unix(minute, 0).UTC().Format("2006-01-02T15:04") + "/" + name
}

func hourOf(unix int64) int64 { return unix - unix%3600 }

func minuteOf(unix int64) int64 { return unix - unix%60 }

// write stores the minutes that have ended, the minutes in progress, and the clients of the last minutes and of the hour
// so far. If all is true, this process is about to end.
func (s *Store) write(ctx context.Context, n *namespace, all bool) error {
	now := s.options.Now()
	n.writing.Lock()
	defer n.writing.Unlock()
	n.pending = append(n.pending, n.history.CloseMinutes(now, all)...)
	if excess := len(n.pending) - maxPending; excess > 0 {
		n.pending = n.pending[excess:]
	}
	for len(n.pending) > 0 {
		m := &n.pending[0]
		hour := hourOf(m.Unix)
		id := fmt.Sprintf("%02d/%s", (m.Unix-hour)/60, s.origin)
		if err := s.put(ctx, n, hour, id, m.Rows); err != nil {
			return err
		}
		n.pending = n.pending[1:]
	}
	hour := hourOf(now.Unix())
	if err := s.writeOpen(ctx, n, hour); err != nil {
		return err
	}
	ending := "" // the node whose minute in progress ends now
	if all {
		ending = s.options.LocalNode
	}
	if err := s.writeMinuteClients(ctx, n, now, ending); err != nil {
		return err
	}
	if n.hour != 0 && n.hour != hour { // the clients of the previous hour may have changed since the last write
		if err := s.writeHourClients(ctx, n, n.hour, now, ending); err != nil {
			return err
		}
	}
	n.hour = hourOf(now.Add(-2 * time.Minute).Unix()) // nodes may still report the end of the hour
	return s.writeHourClients(ctx, n, hour, now, ending)
}

// writeOpen stores the minutes in progress.
func (s *Store) writeOpen(ctx context.Context, n *namespace, hour int64) error {
	list := n.history.OpenMinutes()
	if len(list) == 0 && n.openHour != hour {
		return nil // there is no earlier state of this hour to replace
	}
	n.openHour = hour
	return s.put(ctx, n, hour, openID+s.origin, list)
}

func (s *Store) writeHourClients(ctx context.Context, n *namespace, hour int64, now time.Time, ending string) error {
	list := n.history.HourClients(hour, now, ending)
	if len(list) == 0 && n.stored != hour {
		return nil
	}
	n.stored = hour
	return s.put(ctx, n, hour, clientsID+s.origin, list)
}

// writeMinuteClients stores the clients of the minutes that were changed, and of the last two.
func (s *Store) writeMinuteClients(ctx context.Context, n *namespace, now time.Time, ending string) error {
	this := minuteOf(now.Unix())
	for _, minute := range append(n.history.ChangedMinutes(), this-60, this) {
		n.minutes[minute] = true
	}
	for _, minute := range slices.Sorted(maps.Keys(n.minutes)) {
		expires := time.Unix(minute, 0).Add(traffic.ClientMinutes + 2*time.Minute)
		if list := n.history.MinuteClients(minute, now, ending); len(list) > 0 && expires.After(now) {
			if err := s.putState(ctx, minuteBucketOf(n.name, minute), s.origin, expires, list); err != nil {
				return err
			}
		}
		delete(n.minutes, minute)
	}
	return nil
}

func (s *Store) put(ctx context.Context, n *namespace, hour int64, id string, value any) error {
	return s.putState(ctx, bucketOf(n.name, hour), id, time.Unix(hour, 0).Add(keep), value)
}

func (s *Store) putState(ctx context.Context, bucket, id string, expires time.Time, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.options.DB.PutState(ctx, control.State{Bucket: bucket, ID: id, Body: body, Expires: expires})
}

// load reads states of the last hours that other processes have stored, or this process before a restart.
func (s *Store) load(ctx context.Context, n *namespace, since time.Duration) error {
	now := s.options.Now()
	for hour := hourOf(now.Add(-since).Unix()); hour <= now.Unix(); hour += 3600 {
		states, err := s.options.DB.States(ctx, bucketOf(n.name, hour), maxStates)
		if err != nil {
			return fmt.Errorf("read traffic: %w", err)
		}
		for i := range states {
			if err := s.loadState(n, hour, &states[i]); err != nil {
				return fmt.Errorf("read traffic: %s %s: %w", states[i].Bucket, states[i].ID, err)
			}
		}
	}
	if err := s.loadMinuteClients(ctx, n, now, since); err != nil {
		return fmt.Errorf("read traffic: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for key := range n.loaded {
		if now.Unix()-key.hour > int64(keep/time.Second) {
			delete(n.loaded, key)
		}
	}
	return nil
}

// loadMinuteClients reads the clients of the last minutes that other processes have stored.
func (s *Store) loadMinuteClients(ctx context.Context, n *namespace, now time.Time, since time.Duration) error {
	from := minuteOf(now.Add(-min(since, traffic.ClientMinutes)).Unix())
	for minute := from; minute <= now.Unix(); minute += 60 {
		states, err := s.options.DB.States(ctx, minuteBucketOf(n.name, minute), maxStates)
		if err != nil {
			return err
		}
		for i := range states {
			if states[i].ID == s.origin {
				continue
			}
			var list []traffic.ClientCount
			if err := json.Unmarshal(states[i].Body, &list); err != nil {
				return fmt.Errorf("%s %s: %w", states[i].Bucket, states[i].ID, err)
			}
			n.history.LoadMinute(minute, states[i].ID, list)
		}
	}
	return nil
}

func (s *Store) loadState(n *namespace, hour int64, state *control.State) error {
	first, origin, _ := strings.Cut(state.ID, "/")
	if origin == s.origin {
		return nil // this process has the data in memory
	}
	if strings.HasPrefix(state.ID, clientsID) {
		var list []traffic.ClientCount
		if err := json.Unmarshal(state.Body, &list); err != nil {
			return err
		}
		n.history.LoadHour(hour, origin, list)
		return nil
	}
	if strings.HasPrefix(state.ID, openID) {
		return s.loadOpen(n, origin, state.Body)
	}
	minute, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return err
	}
	m := traffic.Minute{Unix: hour + 60*minute}
	if err := json.Unmarshal(state.Body, &m.Rows); err != nil {
		return err
	}
	s.loadMinute(n, origin, m, true)
	return nil
}

// loadOpen adds the minutes that another process had in progress. If that process still runs, it stores their final
// states when they have ended.
func (s *Store) loadOpen(n *namespace, origin string, body []byte) error {
	var list []traffic.Minute
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	for _, m := range list {
		s.loadMinute(n, origin, m, false)
	}
	return nil
}

// loadMinute adds the counts of a minute of another process, except counts that were added before. final reports
// whether the minute has ended. After its final counts, loadMinute adds no more.
func (s *Store) loadMinute(n *namespace, origin string, m traffic.Minute, final bool) {
	key := stateKey{hourOf(m.Unix), fmt.Sprintf("%02d/%s", m.Unix%3600/60, origin)}
	n.mu.Lock()
	before, seen := n.loaded[key]
	if seen && before == nil { // the final state was added
		n.mu.Unlock()
		return
	}
	added := make(map[string]traffic.Counts, len(m.Rows))
	for i := range m.Rows {
		row := &m.Rows[i]
		added[row.Rule] = row.Counts
		if earlier, ok := before[row.Rule]; ok {
			row.Counts = row.Minus(&earlier)
		}
	}
	if final {
		added = nil
	}
	n.loaded[key] = added
	n.mu.Unlock()
	n.history.Load(m, s.options.Now())
}
