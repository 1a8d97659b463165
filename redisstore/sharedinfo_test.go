package redisstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate/internal/redistest"
)

func TestStoresShareReportsOfServers(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	stores := []*Store{
		open(t, server.URL(), Options{}), open(t, server.URL(), Options{}), open(t, server.URL(), Options{}),
	}
	server.ResetStats()
	for range 4 {
		for i, s := range stores {
			list, err := s.SharedHealth(within(t, unhurried), time.Hour)
			if err != nil || len(list) != 1 {
				t.Fatalf("store %d: got %v, %v", i, list, err)
			}
			if h := list[0]; h.Err != nil || h.MemoryUsed == 0 || h.Version == "" || h.Ping <= 0 || !h.Primary {
				t.Errorf("store %d: got %+v", i, h)
			}
		}
	}
	if asked := server.CommandStats()["info"]; asked > 1+1 { // one of them by CommandStats itself
		t.Errorf("INFO was sent %d times, want once", asked-1)
	}
	other := apart(stores[0], nil) // with another prefix
	if list, err := other.SharedHealth(within(t, unhurried), time.Hour); err != nil || list[0].MemoryUsed == 0 {
		t.Errorf("another prefix: got %v, %v", list, err)
	}
}

func TestOldReportIsUsedOnlyWhileAnotherIsRead(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t, redistest.Options{})
	s := open(t, server.URL(), Options{})
	key := s.prefix + ":info:" + server.Addr()
	memory := func() int64 {
		t.Helper()
		list, err := s.SharedHealth(within(t, unhurried), time.Hour)
		if err != nil || list[0].Err != nil {
			t.Fatalf("got %v, %v", list, err)
		}
		return list[0].MemoryUsed
	}
	mustDo(t, server, "SET", key, "1000\nrole:master\r\nused_memory:42\r\n")
	mustDo(t, server, "SET", key+":asked", "1")
	if got := memory(); got != 42 {
		t.Errorf("while another store asks: got %d bytes, want the old report", got)
	}
	mustDo(t, server, "DEL", key+":asked")
	if got := memory(); got == 42 {
		t.Error("got the old report, want a new one")
	}
	mustDo(t, server, "SET", key, "nonsense")
	if got := memory(); got == 0 {
		t.Error("got nothing, want a report although the shared one is malformed")
	}
}

func TestCPUOfTheSameReportStays(t *testing.T) {
	var c cpuSamples
	at := time.Unix(1000, 0)
	for i, want := range []float64{-1, 0.5, 0.5, 0.25} {
		sample := []cpuSample{
			{at: at, seconds: 1},
			{at: at.Add(10 * time.Second), seconds: 6},
			{at: at.Add(10 * time.Second), seconds: 6},
			{at: at.Add(30 * time.Second), seconds: 11},
		}[i]
		list := []ShardHealth{{Server: "a", cpu: sample}}
		if c.update(list); list[0].CPU != want {
			t.Errorf("report %d: got %v cores, want %v", i, list[0].CPU, want)
		}
	}
}
