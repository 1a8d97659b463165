package fleettraffic_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/server/telemetry/traffic"
)

// maxWeek is the size of the database after 7 days of busyMinutes, in bytes.
const maxWeek = 200 << 20

// busyMinutes reports minutes of virtual time of 50 nodes with 100 rules. Ten of the nodes name 400 clients each, 4,000
// of 20,000.
func (s *service) busyMinutes(minutes int) {
	s.t.Helper()
	rows := make([]traffic.Row, 100)
	clients := make([]traffic.ClientCount, 400)
	for i := range rows {
		rows[i] = traffic.Row{Rule: fmt.Sprintf("rule-of-some-length-%d", i), Counts: traffic.Counts{
			Requests: 123_456, Denied: 1234, Cost: 123_456, Timed: 4000, TookNS: 12_345_678,
		}}
	}
	for range minutes {
		for node := range 50 {
			for i := range clients {
				id := (i*50 + node) % 20_000
				clients[i] = traffic.ClientCount{
					Client: traffic.RawClient(fmt.Sprintf(`{"user":"client-%d"}`, id)), Rule: rows[id%100].Rule,
					Requests: 1000, Denied: 10,
				}
			}
			_, _, err := s.Report(s.t.Context(), "default", &traffic.Report{
				Node: fmt.Sprint(node), Started: 1, Minute: s.now.Load(), Clients: clients[:400*(node%5/4)],
				Seconds: []traffic.Second{{Unix: s.now.Load(), Rows: rows}},
			})
			if err != nil {
				s.t.Fatal(err)
			}
		}
		s.now.Add(60)
		s.Flush(s.t.Context(), false)
	}
}

// At the rate of 20 minutes, the database has less than maxWeek after 7 days.
func TestWeekOfTrafficFitsIntoTheDatabase(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().Unix() / 3600 * 3600)
	db := openDB(t, filepath.Join(t.TempDir(), "rules.db"))
	hour := time.Unix(now.Load(), 0).UTC()
	newService(t, db, &now).busyMinutes(20)
	states, err := db.States(t.Context(), "traffic/"+hour.Format("2006-01-02T15")+"/default", 1000)
	if err != nil || len(states) < 19 {
		t.Fatalf("got %d states, %v; want one for each minute and one for the clients", len(states), err)
	}
	week := 0
	for minute := range 20 { // of the 62 that are kept
		bucket := "traffic-clients/" + hour.Add(time.Duration(minute)*time.Minute).Format("2006-01-02T15:04") + "/default"
		list, err := db.States(t.Context(), bucket, 10)
		if err != nil || minute < 19 && len(list) != 1 {
			t.Fatalf("%s: got %d states, %v, want 1", bucket, len(list), err)
		}
		for i := range list {
			week += 62 * (len(list[i].Body) + 200) / 19
		}
	}
	t.Logf("%d MB of clients by the minute", week>>20)
	for i := range states {
		count := 1 // of the clients in an hour
		if !strings.HasPrefix(states[i].ID, "clients/") {
			count = 3 // there are 20 minutes
		}
		week += 24 * 7 * count * (len(states[i].Body) + 200)
	}
	t.Logf("%d MB in 7 days", week>>20)
	if week > maxWeek {
		t.Errorf("got %d MB in 7 days, want at most %d", week>>20, maxWeek>>20)
	}
}

// The database file has less than maxWeek after 7 days of virtual time. They end now, because the database deletes what
// expires by its own clock.
func TestSoakWeekOfTrafficFitsIntoTheDatabase(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("set HEADGATE_SOAK=1, as make soak does")
	}
	var now atomic.Int64
	now.Store(time.Now().Unix()/3600*3600 - 7*24*3600)
	path := filepath.Join(t.TempDir(), "rules.db")
	s := newService(t, openDB(t, path), &now)
	for day := range 7 {
		s.busyMinutes(24 * 60)
		files, err := filepath.Glob(path + "*") // with the write-ahead log
		if err != nil {
			t.Fatal(err)
		}
		var size int64
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		t.Logf("day %d: %d MB", day+1, size>>20)
		if size > maxWeek {
			t.Errorf("got %d MB after day %d, want at most %d", size>>20, day+1, maxWeek>>20)
		}
	}
}
