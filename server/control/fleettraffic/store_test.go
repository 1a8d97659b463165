package fleettraffic_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/fleettraffic"
	"github.com/headgate/headgate/server/control/sqlite"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// A service is a rules service whose time tests set.
type service struct {
	*fleettraffic.Store
	t   testing.TB
	now *atomic.Int64 // Unix seconds
}

func newService(t testing.TB, db control.DB, now *atomic.Int64) *service {
	t.Helper()
	return &service{t: t, now: now, Store: fleettraffic.NewStore(fleettraffic.Options{
		DB: db, Namer: traffic.NewNamer(traffic.Clear, nil), Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Unix(now.Load(), 0) }, Erased: func(map[string]string) {}, LocalNode: "own",
	})}
}

func openDB(t testing.TB, path string) control.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// report sends the requests of one second of a node.
func (s *service) report(node string, requests uint64) {
	s.t.Helper()
	unix := s.now.Load()
	counts := traffic.Counts{Requests: requests, Denied: requests / 2, Cost: requests}
	_, _, err := s.Report(s.t.Context(), "default", &traffic.Report{
		Node: node, Started: 1, Minute: unix - unix%60,
		Seconds: []traffic.Second{{Unix: unix, Rows: []traffic.Row{{Counts: counts}, {Rule: "search", Counts: counts}}}},
		Clients: []traffic.ClientCount{{
			Client: `{"user":"noisy"}`, Rule: "search", Requests: requests, Denied: requests / 2,
		}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// requests returns the number of requests in a window.
func (s *service) requests(window time.Duration) (sum uint64) {
	s.t.Helper()
	h, err := s.History(s.t.Context(), "default")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, n := range h.Series(traffic.SeriesQuery{Window: window, Limit: 10}, time.Unix(s.now.Load(), 0)).Total.Requests {
		sum += n
	}
	return sum
}

// seen returns the number of requests and of the client's requests in a window.
func (s *service) seen(window time.Duration) string {
	s.t.Helper()
	h, err := s.History(s.t.Context(), "default")
	if err != nil {
		s.t.Fatal(err)
	}
	now := time.Unix(s.now.Load(), 0)
	sum, client := s.requests(window), uint64(0)
	for _, c := range h.Clients(traffic.ClientsQuery{Window: window, Limit: 10}, now).Clients {
		client += c.Requests
	}
	return fmt.Sprintf("%d requests, %d of the client", sum, client)
}

func (s *service) wants(window time.Duration, want string) {
	s.t.Helper()
	if got := s.seen(window); got != want {
		s.t.Errorf("%v: got %s, want %s", window, got, want)
	}
}

func TestRestartKeepsStoredTraffic(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().Unix() / 3600 * 3600)
	db := openDB(t, filepath.Join(t.TempDir(), "rules.db"))
	s := newService(t, db, &now)
	for range 3 {
		s.report("a", 10)
		s.report("b", 5)
		now.Add(60)
		s.Flush(t.Context(), false)
	}
	s.wants(time.Hour, "45 requests, 45 of the client")
	now.Add(5) // until the nodes have reported the last minute
	s.Flush(t.Context(), true)
	after := newService(t, db, &now)
	if _, err := after.History(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	after.Flush(t.Context(), false) // reads what was stored in the last minutes
	after.report("a", 1)
	now.Add(60)
	after.Flush(t.Context(), false)
	after.WaitLoaded()
	for _, window := range []time.Duration{10 * time.Minute, time.Hour, 2 * time.Hour} {
		after.wants(window, "46 requests, 46 of the client")
	}
	// A second restart counts nothing twice.
	after.Flush(t.Context(), true)
	again := newService(t, db, &now)
	if _, err := again.History(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	again.WaitLoaded()
	again.wants(2*time.Hour, "46 requests, 46 of the client")
	// After a week it is gone.
	now.Add(8 * 24 * 3600)
	again.Flush(t.Context(), false)
	again.wants(7*24*time.Hour, "0 requests, 0 of the client")
}

// A process that stops stores the minute in progress of its own node, which stops with it. The other nodes report theirs
// to the next process.
func TestRestartCountsTheMinuteInProgressOnce(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().Unix()/3600*3600 + 600)
	db := openDB(t, filepath.Join(t.TempDir(), "rules.db"))
	s := newService(t, db, &now)
	s.report("own", 10)
	s.report("far", 5)
	now.Add(30)
	s.Flush(t.Context(), true)
	after := newService(t, db, &now)
	after.seen(time.Hour)
	after.WaitLoaded()
	unix := now.Load()
	_, _, err := after.Report(t.Context(), "default", &traffic.Report{ // as the recorder of the node counts on
		Node: "far", Started: 1, Minute: unix - unix%60,
		Clients: []traffic.ClientCount{{Client: `{"user":"noisy"}`, Rule: "search", Requests: 7}},
	})
	if err != nil {
		t.Fatal(err)
	}
	now.Add(40)
	for _, window := range []time.Duration{10 * time.Minute, 2 * time.Hour} {
		after.wants(window, "15 requests, 17 of the client")
	}
}

// A process that is killed has written nothing since the last minute.
func TestKilledServiceLosesAtMostOneMinute(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().Unix()/3600*3600 + 605)
	db := openDB(t, filepath.Join(t.TempDir(), "rules.db"))
	s := newService(t, db, &now)
	for range 3 {
		s.report("a", 10)
		now.Add(60)
		s.Flush(t.Context(), false)
	}
	s.report("a", 10) // lost
	now.Add(59)
	after := newService(t, db, &now)
	after.seen(time.Hour)
	after.WaitLoaded()
	for _, window := range []time.Duration{10 * time.Minute, time.Hour, 2 * time.Hour} {
		after.wants(window, "30 requests, 30 of the client")
	}
	// If the first process still runs, each request counts once in both.
	s.report("b", 5)
	now.Add(120)
	s.Flush(t.Context(), false)
	after.Flush(t.Context(), false)
	now.Add(60)
	after.Flush(t.Context(), false)
	for _, window := range []time.Duration{time.Hour, 10 * time.Minute} {
		if got := s.requests(window); got != 45 {
			t.Errorf("%v, the first process: got %d requests, want 45", window, got)
		}
		if got := after.requests(window); got != 45 {
			t.Errorf("%v, the second process: got %d requests, want 45", window, got)
		}
	}
}

func TestProcessesShareTrafficThroughTheDatabase(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().Unix()/3600*3600 + 5400) // ahead of the database's clock, by which erasures expire
	db := openDB(t, filepath.Join(t.TempDir(), "rules.db"))
	a, b := newService(t, db, &now), newService(t, db, &now)
	a.report("a", 10)
	b.report("b", 5)
	a.WaitLoaded()
	b.WaitLoaded()
	for range 3 {
		now.Add(60)
		a.Flush(t.Context(), false)
		b.Flush(t.Context(), false)
	}
	a.wants(2*time.Hour, "15 requests, 15 of the client")
	b.wants(2*time.Hour, "15 requests, 15 of the client")
	// One command erases a client from both and from the database.
	if _, err := a.Erase(t.Context(), "default", map[string]string{"user": "noisy"}); err != nil {
		t.Fatal(err)
	}
	a.wants(2*time.Hour, "15 requests, 0 of the client")
	now.Add(60)
	b.Flush(t.Context(), false)
	b.wants(2*time.Hour, "15 requests, 0 of the client")
	after := newService(t, db, &now)
	after.seen(time.Hour)
	after.WaitLoaded()
	after.wants(2*time.Hour, "15 requests, 0 of the client")
}
