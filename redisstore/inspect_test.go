package redisstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/internal/redisurl"
	"github.com/headgate/headgate/redisstore/internal/topology"
)

// warns expects a warning about a server with all of the words.
func warns(t *testing.T, s *Store, server *redistest.Server, words ...string) {
	t.Helper()
next:
	for _, w := range s.Warnings() {
		for _, word := range append(words, server.Addr()) {
			if !strings.Contains(w.String(), word) {
				continue next
			}
		}
		if w.Fix == "" || w.Problem == "" {
			t.Errorf("%+v says not what to do", w)
		}
		return
	}
	t.Errorf("no warning about %s with %q; got %q", server, words, s.Warnings())
}

func TestEvictionWarns(t *testing.T) {
	for _, policy := range []string{"allkeys-lru", "allkeys-random", "volatile-ttl", "volatile-lfu"} {
		server := redistest.Standalone(t, redistest.Options{MaxMemory: 64 << 20, MaxMemoryPolicy: policy})
		var log logbook.Book
		s := open(t, server.URL(), Options{Logger: log.Logger()})
		warns(t, s, server, "evicts keys", policy, "full limit again", "maxmemory-policy noeviction")
		if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), policy) {
			t.Errorf("the log says nothing of it: %s", &log)
		}
	}
	for _, o := range []redistest.Options{{}, {MaxMemory: 64 << 20}} {
		server := redistest.Standalone(t, o)
		if w := open(t, server.URL(), Options{}).Warnings(); len(w) > 0 {
			t.Errorf("%+v: warnings %q", o, w)
		}
	}
}

func TestInspectLooksAgain(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{MaxMemory: 64 << 20})
	s := open(t, server.URL(), Options{})
	if w, err := s.Inspect(within(t, unhurried)); err != nil || len(w) > 0 {
		t.Errorf("got %q, %v", w, err)
	}
	if _, err := server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lfu"); err != nil {
		t.Fatal(err)
	}
	if w, err := s.Inspect(within(t, unhurried)); err != nil || len(w) != 1 {
		t.Errorf("got %q, %v", w, err)
	}
	warns(t, s, server, "allkeys-lfu")
	server.Kill()
	await.NoError(t, "not so yet", func() error {
		if _, err := s.Inspect(within(t, unhurried)); !errors.Is(err, ErrUnreachable) {
			return fmt.Errorf("got %w, want ErrUnreachable", err)
		}
		return nil
	})
	_ = s.Close()
	if _, err := s.Inspect(within(t, unhurried)); !errors.Is(err, headgate.ErrClosed) {
		t.Errorf("closed: got %v", err)
	}
}

func TestFullMemoryWarnsAndFailsDecisions(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{MaxMemory: 8 << 20})
	early := open(t, server.URL(), Options{Secret: testSecret})
	server.FillMemory()
	s := open(t, server.URL(), Options{Secret: testSecret})
	warns(t, s, server, "has used", "decisions fail", "raise its maxmemory")
	for _, s := range []*Store{early, s} {
		err := take(within(t, unhurried), s, "new client")
		if !errors.Is(err, headgate.ErrFull) {
			t.Errorf("got %v, want ErrFull", err)
		}
		says(t, err, server.Addr(), "is out of memory", "raise its maxmemory")
	}
}

func TestClockSkewWarns(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{-time.Hour, 30 * time.Second} {
		server := redistest.Standalone(t, redistest.Options{ClockOffset: offset})
		s := open(t, server.URL(), Options{})
		word := map[bool]string{true: "ahead of", false: "behind"}[offset > 0]
		warns(t, s, server, "has a clock", word, "NTP")
		wantSkew(t, s, offset.Abs())
	}
	near := redistest.Standalone(t, redistest.Options{ClockOffset: 500 * time.Millisecond})
	if w := open(t, near.URL(), Options{}).Warnings(); len(w) > 0 {
		t.Errorf("half a second: %q", w)
	}
	cluster := redistest.Cluster(t, redistest.ClusterOptions{Clocks: []time.Duration{time.Minute, -time.Minute}})
	s := open(t, cluster.URL(), Options{})
	warns(t, s, cluster.Servers()[1], "behind that of "+cluster.Servers()[0].Addr(), "synchronize the clocks of the servers")
}

func TestSkewBetweenServersCountsFromOneSecond(t *testing.T) {
	report := func(server string, skew, tolerance time.Duration) serverReport {
		return serverReport{server: server, clock: clockReading{known: true, skew: skew, tolerance: tolerance}}
	}
	const half, ms = 700 * time.Millisecond, time.Millisecond
	for _, tt := range []struct {
		name    string
		reports []serverReport
		want    string // in the warning
	}{
		{"far apart", []serverReport{report("a", half, ms), report("b", -half, ms)}, "b: has a clock that is 1.4s behind that of a"},
		{"in another order", []serverReport{report("b", -half, ms), {}, report("a", half, ms)}, "1.4s behind that of a"},
		{"within the tolerance", []serverReport{report("a", half, 300*ms), report("b", -half, 300*ms)}, ""},
		{"close", []serverReport{report("a", half, ms), report("b", 0, ms)}, ""},
		{"unknown", []serverReport{report("a", half, ms), {server: "b"}}, ""},
	} {
		got := fmt.Sprint(compareClocks(tt.reports))
		if tt.want == "" && got != "[]" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %q", tt.name, got, tt.want)
		}
	}
}

// wantSkew expects a warning with the approximate clock skew.
func wantSkew(t *testing.T, s *Store, want time.Duration) {
	t.Helper()
	for _, w := range s.Warnings() {
		if _, rest, ok := strings.Cut(w.Problem, "has a clock that is "); ok {
			text, _, _ := strings.Cut(rest, " ")
			if got, err := time.ParseDuration(text); err != nil || (got-want).Abs() > time.Second/2 {
				t.Errorf("a clock is off by %s, want about %v", text, want)
			}
			return
		}
	}
	t.Errorf("got %q, want a warning of a clock", s.Warnings())
}

func TestFailedDiskWarns(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{})
	early := open(t, server.URL(), Options{Secret: testSecret})
	// A directory has the name of the file to save to.
	if err := os.Mkdir(filepath.Join(filepath.Dir(server.Socket()), "dump.rdb"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"CONFIG", "SET", "save", "3600 1000"}, {"BGSAVE"}} {
		if _, err := server.Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	await.NoError(t, "not so yet", func() error {
		if status := server.Info("persistence")["rdb_last_bgsave_status"]; status != "err" {
			return fmt.Errorf("saving went %s", status)
		}
		return nil
	})
	s := open(t, server.URL(), Options{Secret: testSecret})
	warns(t, s, server, "could not save to disk", "stop-writes-on-bgsave-error")
	err := take(within(t, unhurried), early, "alice")
	says(t, err, server.Addr(), "cannot save to disk", "free its disk")
}

func TestUserWithoutInfoWarns(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{Users: []string{"bob on >secret ~* &* +@all -info"}})
	s := open(t, "redis://bob:secret@"+server.Addr(), Options{Secret: testSecret})
	warns(t, s, server, "does not let its user run INFO", "ACL SETUSER")
	if err := take(within(t, unhurried), s, "alice"); err != nil {
		t.Error(err)
	}
	h, err := s.Health(within(t, unhurried))
	if err != nil || len(h) != 1 {
		t.Fatalf("%v, %v", h, err)
	}
	says(t, h[0].Err, server.Addr(), "does not let its user do that", "ACL SETUSER")
}

func TestUserWithoutAccessToOurKeysIsExplained(t *testing.T) {
	server := redistest.Standalone(t, redistest.Options{Users: []string{"carol on >secret ~theirs:* &* +@all"}})
	s := open(t, "redis://carol:secret@"+server.Addr(), Options{Secret: testSecret})
	err := take(within(t, unhurried), s, "alice")
	says(t, err, server.Addr(), "does not let its user do that", "ACL SETUSER", "prefix")
}

func TestClusterIsChecked(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, redistest.ClusterOptions{})
	s := open(t, cluster.URL(), Options{Secret: testSecret})
	warns(t, s, cluster.Servers()[0], "serves no keys while any shard of its cluster is down", "cluster-require-full-coverage no")
	for _, server := range cluster.Servers() {
		if _, err := server.Do("CONFIG", "SET", "cluster-require-full-coverage", "no"); err != nil {
			t.Fatal(err)
		}
	}
	if w := open(t, cluster.URL(), Options{}).Warnings(); len(w) > 0 {
		t.Errorf("got %q", w)
	}
	if _, err := cluster.PrimaryOfSlot(100).Do("CLUSTER", "DELSLOTS", "100", "101"); err != nil {
		t.Fatal(err)
	}
	for _, server := range cluster.Servers() {
		_, _ = server.Do("CLUSTER", "DELSLOTS", "100", "101")
	}
	s = open(t, cluster.URL(), Options{Secret: testSecret})
	found := false
	for _, w := range s.Warnings() {
		found = found || strings.Contains(w.Problem, "2 of 16384 slots have no server")
	}
	if !found {
		t.Errorf("got %q", s.Warnings())
	}
	key := ""
	for i := 0; key == "" || redistest.SlotOf(key) != 100; i++ {
		key = fmt.Sprint("k", i)
	}
	begin := time.Now()
	err := s.client.Do(within(t, 100*time.Millisecond), s.client.Builder().Get().Key(key).Build()).Error()
	if took := time.Since(begin); took > soon {
		t.Errorf("it took %v", took)
	}
	says(t, s.client.Explain(err, ""), "CLUSTER SLOTS")
}

func TestVersionsAreRead(t *testing.T) {
	for _, tt := range []struct {
		info  map[string]string
		kind  redisurl.Kind
		major int
		want  string
	}{
		{map[string]string{"redis_version": "7.0.15", "role": "master"}, redisurl.Standalone, 7, ""},
		{map[string]string{"redis_version": "6.0.16"}, redisurl.Standalone, 6, ""},
		{map[string]string{"redis_version": "255.255.255"}, redisurl.Standalone, 255, ""},
		{map[string]string{"redis_version": "7.2.4", "valkey_version": "9.0.1", "server_name": "valkey"}, redisurl.Standalone, 7, ""},
		{map[string]string{"redis_version": "5.0.14"}, redisurl.Standalone, 5, "is Redis 5.0.14, which is too old: use Redis 6.0 or later, or Valkey"},
		{map[string]string{"redis_version": "garbage"}, redisurl.Standalone, 0, ""},
		{map[string]string{}, redisurl.Standalone, 0, ""},
		{map[string]string{"redis_version": "7.0.0", "loading": "1"}, redisurl.Standalone, 7, "still loading"},
		{map[string]string{"redis_version": "7.0.0", "cluster_enabled": "1"}, redisurl.Standalone, 7, "use redis-cluster://"},
		{map[string]string{"redis_version": "7.0.0", "cluster_enabled": "1", "role": "slave"}, redisurl.Cluster, 7, ""},
	} {
		r := serverReport{server: "s"}
		err := r.checkInfo(tt.info, tt.kind)
		if r.major != tt.major || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: got major %d, %v; want %d, %q", tt.info, r.major, err, tt.major, tt.want)
		}
	}
}

func TestUnboundedMemoryWarns(t *testing.T) {
	r := serverReport{server: "s"}
	r.checkMemory(map[string]string{"used_memory": "95", "maxmemory": "0", "total_system_memory": "100"})
	if len(r.warnings) != 1 || !strings.Contains(r.warnings[0].String(), "without a limit") {
		t.Errorf("got %q", r.warnings)
	}
}

func FuzzInfo(f *testing.F) {
	f.Add("# Server\r\nredis_version:7.0.15\r\nslave0:ip=1.2.3.4,port=1,state=online,offset=5,lag=0\r\n")
	f.Add("txt:a:b")
	f.Fuzz(func(_ *testing.T, text string) {
		info := topology.ParseInfo(text)
		r := serverReport{server: "s"}
		_ = r.checkInfo(info, redisurl.Standalone)
		info["connected_slaves"] = "3"
		var h ShardHealth
		h.readInfo(info)
	})
}
