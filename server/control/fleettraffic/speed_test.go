package fleettraffic_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/server/telemetry/traffic"
)

// reportsOfASecond returns the reports of 50 nodes with 100 rules, as JSON. Each fifth has the clients of its minute, of
// Zipf traffic of a million.
func reportsOfASecond(b *testing.B, unix int64, client func() uint64) [][]byte {
	b.Helper()
	rows := make([]traffic.Row, 100)
	for i := range rows {
		rows[i] = traffic.Row{Rule: fmt.Sprintf("rule-of-some-length-%d", i), Counts: traffic.Counts{
			Requests: 123_456, Denied: 1234, Cost: 123_456, Timed: 4000, TookNS: 12_345_678,
		}}
	}
	bodies := make([][]byte, 50)
	for node := range bodies {
		r := &traffic.Report{
			Node: fmt.Sprint(node), Started: 1, Seconds: []traffic.Second{{Unix: unix, Rows: rows}},
		}
		if (unix+int64(node))%5 == 0 {
			r.Minute = unix - unix%60
			for range 1000 {
				id := client()
				r.Clients = append(r.Clients, traffic.ClientCount{
					Client: traffic.RawClient(fmt.Sprintf(`{"user":"client-%d"}`, id)), Rule: rows[id%100].Rule,
					Requests: 1000, Denied: 10,
				})
			}
		}
		var err error
		if bodies[node], err = json.Marshal(r); err != nil {
			b.Fatal(err)
		}
	}
	return bodies
}

// BenchmarkSecondOf50Nodes measures the work of the rules service for one second of 50 nodes: to read and merge their
// reports, and to store each minute. 50 ms are 5 % of a core.
func BenchmarkSecondOf50Nodes(b *testing.B) {
	var now atomic.Int64
	now.Store(time.Now().Unix() / 3600 * 3600)
	s := newService(b, openDB(b, filepath.Join(b.TempDir(), "rules.db")), &now)
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.001, 1, 1_000_000)
	for b.Loop() {
		b.StopTimer()
		bodies := reportsOfASecond(b, now.Load(), zipf.Uint64)
		b.StartTimer()
		for _, body := range bodies {
			r, err := traffic.ParseReport(body)
			if err != nil {
				b.Fatal(err)
			}
			if _, _, err := s.Report(b.Context(), "default", r); err != nil {
				b.Fatal(err)
			}
		}
		if now.Add(1)%60 == 0 {
			s.Flush(b.Context(), false)
		}
	}
}
