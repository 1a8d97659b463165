package fleetredis

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet"
)

// reportRedis reports how long a server worked for each call of a script, and how many bytes were sent and received.
func reportRedis(b *testing.B, server *redistest.Server) {
	b.Helper()
	_, rest, _ := strings.Cut(server.Info("commandstats")["cmdstat_evalsha"], "usec_per_call=")
	text, _, _ := strings.Cut(rest, ",")
	micros, err := strconv.ParseFloat(text, 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(micros, "redis-µs/call")
	network := server.Info("stats")
	for name, unit := range map[string]string{
		"total_net_input_bytes": "B-in/op", "total_net_output_bytes": "B-out/op",
	} {
		n, err := strconv.ParseFloat(network[name], 64)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(n/float64(b.N), unit)
	}
}

func benchStore(b *testing.B) (*redistest.Server, *redisstore.Store) {
	b.Helper()
	server := redistest.Standalone(b, redistest.Options{})
	return server, open(b, server.URL(), redisstore.Options{})
}

// An operation is the exchange of one node.
func BenchmarkExchange(b *testing.B) {
	for _, nodes := range []int{1, 5, 20} {
		for _, keys := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%d nodes, %d keys", nodes, keys), func(b *testing.B) {
				server, store := benchStore(b)
				var all []*Exchange
				for i := range nodes {
					x, err := NewExchange(store, ExchangeOptions{Author: fmt.Sprintf("12345678node-%02d", i)})
					if err != nil {
						b.Fatal(err)
					}
					all = append(all, x)
				}
				exchange := func(i int) {
					notes := make([]fleet.Note, keys)
					for k := range notes {
						notes[k] = fleet.Note{Key: fmt.Sprintf("a%015d", k), Text: fmt.Sprintf("%019d", i), Keep: time.Minute}
					}
					if _, err := all[i%nodes].Exchange(b.Context(), notes, func(int, fleet.PeerNote) {}); err != nil {
						b.Fatal(err)
					}
				}
				for i := range nodes {
					exchange(i)
				}
				server.ResetStats()
				for i := 0; b.Loop(); i++ {
					exchange(i)
				}
				reportRedis(b, server)
			})
		}
	}
}

// An operation adds up the units of a node in the totals of its region.
func BenchmarkTotals(b *testing.B) {
	for _, keys := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("%d keys", keys), func(b *testing.B) {
			server, store := benchStore(b)
			totals, err := NewRegionStore(store, "")
			if err != nil {
				b.Fatal(err)
			}
			server.ResetStats()
			for i := 0; b.Loop(); i++ {
				records := make([]fleet.NodeRecord, keys)
				for k := range records {
					records[k] = fleet.NodeRecord{Key: fmt.Sprintf("a%015d", k), Start: 1, Total: int64(i), Keep: time.Hour}
				}
				node := "node-" + strconv.Itoa(i%4)
				_, err := totals.Report(b.Context(), node, time.Second, records, func(int, fleet.RegionRecord) {})
				if err != nil {
					b.Fatal(err)
				}
			}
			reportRedis(b, server)
		})
	}
}
