package fleettraffic

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

const (
	// eraseKeep is how long an erasure is kept for nodes and other processes.
	eraseKeep = 24 * time.Hour
	// maxErasures is the maximum number of erasures that are kept. Above it, the oldest is dropped.
	maxErasures = 1000
	// Nodes without a cursor are sent the erasures of the last eraseOffer with each response. After eraseDelay they have
	// applied them. Until then, their reports may contain the client.
	eraseOffer = 10 * time.Minute
	eraseDelay = 10 * time.Second
	// eraseOverlap is the time before the start of a process, or of a node, from which it applies erasures, too: their
	// clocks may differ.
	eraseOverlap = time.Minute
)

// An Erasure records that a client was erased.
type Erasure struct {
	Time time.Time `json:"time"`
	// Client has the client's attributes. In the database, their values are hashed. In the process that erased the client
	// they have the form in which statistics store them, because nodes of v0.1.0 need it.
	Client map[string]string `json:"client"`

	hashed traffic.ErasedClient
}

func erasuresBucket(name string) string { return "traffic-erased/" + name }

// Erase deletes the statistics of the clients that have all the given attributes, whose values have the form in which
// statistics store them: in memory, in the database and, within seconds, on the nodes. It returns the number of entries
// that were deleted from memory.
func (s *Store) Erase(ctx context.Context, name string, attributes map[string]string) (int, error) {
	n, err := s.namespace(ctx, name)
	if err != nil {
		return 0, err
	}
	s.loading.Wait()
	e := Erasure{Time: s.options.Now().UTC(), Client: attributes, hashed: s.options.Namer.Erased(attributes)}
	body, err := json.Marshal(Erasure{Time: e.Time, Client: e.hashed})
	if err != nil {
		return 0, err
	}
	_, dropped := n.keep(e) // before it is in the database, from which loadErasures would take it without its names
	err = s.options.DB.PutState(ctx, control.State{
		Bucket: erasuresBucket(name), ID: e.id(), Body: body, Expires: e.Time.Add(eraseKeep),
	})
	if err != nil {
		return 0, fmt.Errorf("erase a client: %w", err)
	}
	removed := s.apply(n, e)
	for _, old := range dropped {
		if err := s.options.DB.DeleteState(ctx, erasuresBucket(name), old.id()); err != nil {
			return removed, fmt.Errorf("erase a client: %w", err)
		}
	}
	if err := s.eraseStored(ctx, n, e); err != nil {
		return removed, fmt.Errorf("erase a client: %w", err)
	}
	return removed, nil
}

// id returns the ID of the state in the database.
func (e *Erasure) id() string { return strconv.FormatInt(e.Time.UnixMicro(), 10) }

// keep keeps an erasure for nodes, unless it is known. It returns those that are dropped because there are too many.
func (n *namespace) keep(e Erasure) (isNew bool, dropped []Erasure) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.ContainsFunc(n.erasures, func(old Erasure) bool { return old.Time.Equal(e.Time) }) {
		return false, nil
	}
	n.erasures = append(n.erasures, e)
	from := 0
	for from < len(n.erasures) && e.Time.Sub(n.erasures[from].Time) > eraseKeep {
		from++ // the state in the database has expired
	}
	if excess := len(n.erasures) - maxErasures; excess > from {
		dropped, from = slices.Clone(n.erasures[from:excess]), excess
	}
	n.erasures = slices.Delete(n.erasures, 0, from)
	n.forgotten += from
	return true, dropped
}

// apply deletes a client from memory and from the node in this process. It returns the number of deleted entries.
func (s *Store) apply(n *namespace, e Erasure) int {
	s.options.Erased(e.Client)
	return n.history.Erase(e.hashed)
}

// erasuresFor returns the erasures that a node has not applied yet, and the cursor for its next report.
func (s *Store) erasuresFor(n *namespace, r *traffic.Report, now time.Time) (list []Erasure, cursor string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.Cursor == "" {
		for _, e := range n.erasures {
			if now.Sub(e.Time) <= eraseOffer {
				list = append(list, e)
			}
		}
		return list, ""
	}
	cursor = s.origin + ":" + strconv.Itoa(n.forgotten+len(n.erasures))
	if origin, text, _ := strings.Cut(r.Cursor, ":"); origin == s.origin {
		if count, err := strconv.Atoi(text); err == nil && count <= n.forgotten+len(n.erasures) {
			return slices.Clone(n.erasures[max(count-n.forgotten, 0):]), cursor
		}
	}
	// The cursor is from another process: send all since the start of the node.
	started := time.UnixMicro(r.Started).Add(-eraseOverlap)
	for _, e := range n.erasures {
		if e.Time.After(started) {
			list = append(list, e)
		}
	}
	return list, cursor
}

// dropErased deletes erased clients from the report of a node that may not have applied the erasures when it sent the
// report.
func (s *Store) dropErased(r *traffic.Report, erasures []Erasure, now time.Time) {
	var clients []traffic.ErasedClient
	for _, e := range erasures {
		if r.Cursor != "" || now.Sub(e.Time) < eraseDelay {
			clients = append(clients, e.hashed)
		}
	}
	if len(clients) > 0 {
		r.Clients = slices.DeleteFunc(r.Clients, func(c traffic.ClientCount) bool {
			return s.options.Namer.IsErased(c.Client, clients)
		})
	}
}

// eraseStored deletes a client from the database.
func (s *Store) eraseStored(ctx context.Context, n *namespace, e Erasure) error {
	now := s.options.Now().Unix()
	for hour := hourOf(now - int64(keep/time.Second)); hour <= now; hour += 3600 {
		if err := s.eraseFrom(ctx, bucketOf(n.name, hour), clientsID, e.hashed); err != nil {
			return err
		}
	}
	for minute := minuteOf(now - int64(traffic.ClientMinutes/time.Second)); minute <= now; minute += 60 {
		if err := s.eraseFrom(ctx, minuteBucketOf(n.name, minute), "", e.hashed); err != nil {
			return err
		}
	}
	return nil
}

// eraseFrom deletes a client from the states of a bucket whose IDs have a prefix.
func (s *Store) eraseFrom(ctx context.Context, bucket, prefix string, client traffic.ErasedClient) error {
	states, err := s.options.DB.States(ctx, bucket, maxStates)
	if err != nil {
		return err
	}
	for i := range states {
		if !strings.HasPrefix(states[i].ID, prefix) {
			continue
		}
		var list []traffic.ClientCount
		if err := json.Unmarshal(states[i].Body, &list); err != nil {
			return fmt.Errorf("%s %s: %w", states[i].Bucket, states[i].ID, err)
		}
		before := len(list)
		list = slices.DeleteFunc(list, func(c traffic.ClientCount) bool {
			return s.options.Namer.IsErased(c.Client, []traffic.ErasedClient{client})
		})
		if len(list) == before {
			continue
		}
		if err := s.putState(ctx, bucket, states[i].ID, states[i].Expires, list); err != nil {
			return err
		}
	}
	return nil
}

// loadErasures applies the erasures of other processes. The data of before the start of this process was erased in the
// database.
func (s *Store) loadErasures(ctx context.Context, n *namespace) error {
	states, err := s.options.DB.States(ctx, erasuresBucket(n.name), 2*maxErasures)
	if err != nil {
		return err
	}
	for i := range states {
		var e Erasure
		if err := json.Unmarshal(states[i].Body, &e); err != nil {
			return fmt.Errorf("%s %s: %w", states[i].Bucket, states[i].ID, err)
		}
		e.hashed = s.options.Namer.Erased(e.Client)
		if isNew, _ := n.keep(e); !isNew || !e.Time.After(s.started.Add(-eraseOverlap)) {
			continue
		}
		s.apply(n, e)
		if err := s.eraseStored(ctx, n, e); err != nil { // this process may have stored the client just now
			return err
		}
	}
	return nil
}
