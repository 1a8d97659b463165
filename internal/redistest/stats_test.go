package redistest

import (
	"strconv"
	"testing"
)

func TestCommandStatsCountCalls(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	c := client(t, "tcp", s.Addr())
	for range 3 {
		expect(t, c, "1", "EVAL", "return 1", "0")
	}
	expect(t, c, "[maxclients 10000]", "CONFIG", "GET", "maxclients")
	stats := s.CommandStats()
	if stats["eval"] != 3 || stats["config|get"] != 1 || stats["evalsha"] != 0 {
		t.Errorf("got %v, want eval 3, config|get 1 and no evalsha", stats)
	}
	s.ResetStats()
	if n := s.CommandStats()["eval"]; n != 0 {
		t.Errorf("after ResetStats: got eval %d, want 0", n)
	}
}

func TestFlushedScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	sha, _ := s.must("SCRIPT", "LOAD", "return 7").(string)
	c := client(t, "tcp", s.Addr())
	expect(t, c, "7", "EVALSHA", sha, "0")
	s.FlushScripts()
	expect(t, c, "NOSCRIPT", "EVALSHA", sha, "0")
}

func TestMemoryUsageIsThatOfTheKey(t *testing.T) {
	t.Parallel()
	s := Standalone(t, Options{})
	s.must("SET", "key", string(make([]byte, 10_000)))
	if n := s.MemoryUsage("key"); n < 10_000 || n > 20_000 {
		t.Errorf("got %d bytes for a value of 10000", n)
	}
	if n := s.MemoryUsage("other"); n != 0 {
		t.Errorf("got %d bytes for no key, want 0", n)
	}
}

func TestAFullServerRefusesOrEvicts(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"", "volatile-ttl", "allkeys-lru"} {
		s := Standalone(t, Options{MaxMemory: 8 << 20, MaxMemoryPolicy: policy})
		s.FillMemory()
		c := client(t, "tcp", s.Addr())
		if policy != "allkeys-lru" {
			expect(t, c, "OOM", "SET", "key", "value")
			continue
		}
		expect(t, c, "OK", "SET", "key", "value")
		if n, err := strconv.Atoi(s.Info("stats")["evicted_keys"]); err != nil || n == 0 {
			t.Errorf("%s: got %d evicted keys, %v; want some", policy, n, err)
		}
	}
}
