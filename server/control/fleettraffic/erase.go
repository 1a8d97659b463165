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
	// eraseDelay is the time after which all nodes have applied an erasure. Until then, reports may contain the client.
	eraseDelay = 10 * time.Second
	// eraseKeep is how long an erasure is sent to nodes and other processes.
	eraseKeep = 10 * time.Minute
	// maxErasures is the maximum number of erasures that are kept.
	maxErasures = 1000
)

// An Erasure records that a client was erased.
type Erasure struct {
	Time time.Time `json:"time"`
	// Client has the client's attributes, in the form in which statistics store them.
	Client map[string]string `json:"client"`
}

func erasuresBucket(name string) string { return "traffic-erased/" + name }

// Erase deletes the statistics of the clients that have all the given attributes: in memory, in the database and,
// within seconds, on the nodes. It returns the number of entries that were deleted from memory.
func (s *Store) Erase(ctx context.Context, name string, attributes map[string]string) (int, error) {
	n, err := s.namespace(ctx, name)
	if err != nil {
		return 0, err
	}
	s.loading.Wait()
	e := Erasure{Time: s.options.Now().UTC(), Client: s.options.Namer.Client(attributes).Attributes()}
	body, err := json.Marshal(e)
	if err != nil {
		return 0, err
	}
	err = s.options.DB.PutState(ctx, control.State{
		Bucket: erasuresBucket(name), ID: strconv.FormatInt(e.Time.UnixMicro(), 10), Body: body,
		Expires: e.Time.Add(eraseKeep),
	})
	if err != nil {
		return 0, fmt.Errorf("erase a client: %w", err)
	}
	removed := s.apply(n, e)
	now := e.Time.Unix()
	for hour := hourOf(now - int64(keep/time.Second)); hour <= now; hour += 3600 {
		if err := s.eraseStored(ctx, n, hour, e.Client); err != nil {
			return removed, fmt.Errorf("erase a client: %w", err)
		}
	}
	return removed, nil
}

// apply deletes a client from memory, and keeps the erasure for nodes. It returns the number of deleted entries.
func (s *Store) apply(n *namespace, e Erasure) int {
	n.mu.Lock()
	n.erasures = slices.DeleteFunc(n.erasures, func(old Erasure) bool { return e.Time.Sub(old.Time) > eraseKeep })
	if len(n.erasures) < maxErasures {
		n.erasures = append(n.erasures, e)
	}
	n.mu.Unlock()
	s.options.Erased(e.Client)
	return n.history.Erase(e.Client)
}

// eraseStored deletes a client from the states of an hour in the database.
func (s *Store) eraseStored(ctx context.Context, n *namespace, hour int64, kept map[string]string) error {
	states, err := s.options.DB.States(ctx, bucketOf(n.name, hour), maxStates)
	if err != nil {
		return err
	}
	for i := range states {
		if !strings.HasPrefix(states[i].ID, clientsID) {
			continue
		}
		var list []traffic.ClientCount
		if err := json.Unmarshal(states[i].Body, &list); err != nil {
			return fmt.Errorf("%s %s: %w", states[i].Bucket, states[i].ID, err)
		}
		before := len(list)
		list = slices.DeleteFunc(list, func(c traffic.ClientCount) bool { return c.Client.Includes(kept) })
		if len(list) == before {
			continue
		}
		if err := s.put(ctx, n, hour, states[i].ID, list); err != nil {
			return err
		}
	}
	return nil
}

// loadErasures applies the erasures of other processes.
func (s *Store) loadErasures(ctx context.Context, n *namespace) error {
	states, err := s.options.DB.States(ctx, erasuresBucket(n.name), maxErasures)
	if err != nil {
		return err
	}
	for i := range states {
		var e Erasure
		if err := json.Unmarshal(states[i].Body, &e); err != nil {
			return fmt.Errorf("%s %s: %w", states[i].Bucket, states[i].ID, err)
		}
		n.mu.Lock()
		known := slices.ContainsFunc(n.erasures, func(old Erasure) bool { return old.Time.Equal(e.Time) })
		n.mu.Unlock()
		if !known {
			s.apply(n, e)
		}
	}
	return nil
}
