package fleettraffic_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// eraseNoisy erases the client that report counts.
func (s *service) eraseNoisy() {
	s.t.Helper()
	if _, err := s.Erase(s.t.Context(), "default", map[string]string{"user": "noisy"}); err != nil {
		s.t.Fatal(err)
	}
}

// erasures reports for a node, and returns the number of erasures in the response and its cursor.
func (s *service) erasures(r traffic.Report) (count int, cursor string) {
	s.t.Helper()
	list, cursor, err := s.Report(s.t.Context(), "default", &r)
	if err != nil {
		s.t.Fatal(err)
	}
	return len(list), cursor
}

// A node that was disconnected for hours gets the erasures of that time once, also from another process. Until then, its
// queued reports do not bring the client back.
func TestDisconnectedNodeLearnsOfErasures(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().Unix()/3600*3600 + 600)
	db := openDB(t, filepath.Join(t.TempDir(), "rules.db"))
	s := newService(t, db, &now)
	started := now.Load() * 1e6
	count, cursor := s.erasures(traffic.Report{Node: "far", Started: started, Cursor: traffic.FirstCursor})
	if count != 0 || cursor == "" {
		t.Errorf("before the erasure: got %d erasures and the cursor %q, want 0 and a cursor", count, cursor)
	}
	s.report("near", 10)
	s.eraseNoisy()
	now.Add(3 * 3600)
	late := traffic.Report{
		Node: "far", Started: started, Cursor: cursor, Minute: now.Load(),
		Clients: []traffic.ClientCount{{Client: `{"user":"noisy"}`, Rule: "search", Requests: 7}},
	}
	count, next := s.erasures(late)
	if count != 1 {
		t.Errorf("after three hours: got %d erasures, want 1", count)
	}
	s.wants(time.Hour, "0 requests, 0 of the client")
	if count, _ := s.erasures(traffic.Report{Node: "far", Started: started, Cursor: next}); count != 0 {
		t.Errorf("once more: got %d erasures, want 0", count)
	}

	after := newService(t, db, &now) // restarted
	after.seen(time.Hour)
	after.WaitLoaded()
	if count, _ := after.erasures(traffic.Report{Node: "far", Started: started, Cursor: next}); count != 1 {
		t.Errorf("the restarted service: got %d erasures, want 1", count)
	}
	for name, r := range map[string]traffic.Report{
		"a node that was started later": {Node: "new", Started: now.Load() * 1e6, Cursor: traffic.FirstCursor},
		"a node of v0.1.0":              {Node: "old", Started: started},
	} {
		if count, _ := after.erasures(r); count != 0 {
			t.Errorf("%s: got %d erasures, want 0", name, count)
		}
	}
	// What was counted since the erasure remains in the restarted process.
	after.report("near", 3)
	now.Add(10)
	after.Flush(t.Context(), false)
	after.wants(time.Hour, "3 requests, 3 of the client")
}

func TestDatabaseHasNoNameOfAnErasedClient(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().Unix())
	db := openDB(t, filepath.Join(t.TempDir(), "rules.db"))
	s := newService(t, db, &now)
	s.report("a", 10)
	s.Flush(t.Context(), true)
	s.eraseNoisy()
	states, err := db.States(t.Context(), "traffic-erased/default", 10)
	if err != nil || len(states) != 1 {
		t.Fatalf("got %d erasures, %v, want 1", len(states), err)
	}
	if body := string(states[0].Body); strings.Contains(body, "noisy") || !strings.Contains(body, `"user":"#`) {
		t.Errorf("got %s, want the hash of the name only", body)
	}
}

func TestOnlyTheLastErasuresAreKept(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().Unix())
	db := openDB(t, filepath.Join(t.TempDir(), "rules.db"))
	for i := range 1000 {
		at := time.Unix(now.Load()-2000+int64(i), 0)
		body, err := json.Marshal(map[string]any{"time": at, "client": map[string]string{"user": fmt.Sprint(i)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.PutState(t.Context(), erasureState(at, body)); err != nil {
			t.Fatal(err)
		}
	}
	s := newService(t, db, &now)
	s.eraseNoisy()
	states, err := db.States(t.Context(), "traffic-erased/default", 2000)
	if err != nil || len(states) != 1000 {
		t.Fatalf("got %d erasures, %v, want 1000", len(states), err)
	}
	if strings.Contains(string(states[0].Body), `"user":"0"`) {
		t.Errorf("got %s as the oldest, want it dropped", states[0].Body)
	}
}

func erasureState(at time.Time, body []byte) control.State {
	return control.State{
		Bucket: "traffic-erased/default", ID: fmt.Sprint(at.UnixMicro()), Body: body, Expires: at.Add(24 * time.Hour),
	}
}
