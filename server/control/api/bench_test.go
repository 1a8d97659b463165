package api_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/bars"
	"github.com/headgate/headgate/server/control/api"
)

// manyRules returns a rules file with the given number of rules and limit.
func manyRules(count, limit int) string {
	var file strings.Builder
	file.WriteString(`{"rules":[`)
	for i := range count {
		if i > 0 {
			file.WriteByte(',')
		}
		fmt.Fprintf(&file, `{"id":"rule-%05d","description":"the limit of part %d","when":{"host":"api.example.com","path":"/part/%d/**"},"key":["user"],"limits":["%d/s burst %d"]}`, i, i, i, limit, 2*limit)
	}
	file.WriteString(`]}`)
	return file.String()
}

// 10,000 rules: the time to apply all of them, to apply them again with other limits, to list a page, and to
// change one.
func BenchmarkTenThousandRules(b *testing.B) {
	s := open(b, api.Config{})
	files := []string{manyRules(10_000, 10), manyRules(10_000, 20)}
	s.call("POST", "/v1/rules:apply", files[0]).wants(200)
	b.Run("apply", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s.call("POST", "/v1/rules:apply", files[(i+1)%2]).wants(200)
		}
	})
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			s.call("GET", "/v1/rules?limit=100", "").wants(200)
		}
	})
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			s.call("GET", "/v1/rules?limit=100&q=part%2099", "").wants(200)
		}
	})
	b.Run("change", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s.call("PATCH", "/v1/rules/rule-00500", fmt.Sprintf(`{"priority":%d}`, i%1000)).wants(200)
		}
	})
}

// The bars for 10,000 rules, on an idle machine.
func TestSoakTenThousandRules(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("HEADGATE_SOAK is not set")
	}
	s, _ := startRules(t)
	longest := func(times int, do func(i int)) time.Duration {
		var most time.Duration
		for i := range times {
			began := time.Now()
			do(i)
			most = max(most, time.Since(began))
		}
		return most.Round(10 * time.Microsecond)
	}
	apply := longest(5, func(i int) { s.call("POST", "/v1/rules:apply", manyRules(10_000, 10+i)).wants(200) })
	bars.Hold(t, "10,000 rules applied in one transaction", "≤ 2 s", apply.String()+" at most of 5, all of them changed", apply <= 2*time.Second)
	cursor, pages := "", 0
	page := longest(100, func(int) {
		var got struct{ Next string }
		s.call("GET", "/v1/rules?limit=100&cursor="+cursor, "").wants(200).into(&got)
		cursor = got.Next
		pages++
	})
	bars.Hold(t, "a page of 100 of 10,000 rules", "≤ 50 ms", fmt.Sprintf("%s at most of %d", page, pages), page <= 50*time.Millisecond)
	search := longest(20, func(i int) { s.call("GET", fmt.Sprintf("/v1/rules?limit=100&q=part%%20%d", 9900+i), "").wants(200) })
	change := longest(20, func(i int) {
		s.call("PATCH", "/v1/rules/rule-00500", fmt.Sprintf(`{"priority":%d}`, i+1)).wants(200)
	})
	t.Logf("a search in %s at most, one rule changed in %s at most", search, change)
}

// 1 M registered clients with different limits: the time to import them and to change one, and the memory of
// the service. It takes minutes, so it needs an environment variable.
func TestSoakAMillionClients(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("HEADGATE_SOAK is not set")
	}
	const count = 1_000_000
	s, process := startRules(t)
	s.call("POST", "/v1/rules", searchRule).wants(201)
	var lines strings.Builder
	for i := range count {
		fmt.Fprintf(&lines, `{"id":"client-%07d","limits":["%d/s"]}`+"\n", i, i+1)
	}
	began := time.Now()
	s.call("POST", "/v1/clients:import", lines.String(), ndjson...).wants(200, `"created":1000000`)
	t.Logf("import of %d clients: %v, the service took %d MB", count, time.Since(began), peak(process.Process.Pid))
	for i := range 5 {
		began = time.Now()
		revision := s.call("PUT", "/v1/clients/client-0000500", fmt.Sprintf(`{"id":"client-0000500","limits":["%d/s"]}`, 7+i)).wants(200).etag()
		took := time.Since(began)
		if took > 10*time.Second {
			t.Errorf("one client changed: got %v", took)
		}
		began = time.Now()
		delta := s.call("GET", fmt.Sprintf("/v1/snapshot?since=%d", revision-1), "").wants(200)
		t.Logf("one client changed in %v; what nodes fetch of it is %d bytes, in %v", took, len(delta.body), time.Since(began))
		if len(delta.body) > 10_000 {
			t.Errorf("what nodes fetch: got %d bytes, want at most 10,000", len(delta.body))
		}
	}
	began = time.Now()
	s.call("PATCH", "/v1/rules/search", `{"limits":["77/s"]}`).wants(200)
	t.Logf("a rule's limit changed in %v", time.Since(began))
	began = time.Now()
	s.call("POST", "/v1/rules", strings.Replace(searchRule, "search", "another", 1)).wants(201)
	t.Logf("a rule added that asks of them what another has asked in %v", time.Since(began))
	began = time.Now()
	s.call("PATCH", "/v1/rules/search", `{"count_rejected":true}`).wants(200)
	t.Logf("a rule changed that all clients are held against in %v", time.Since(began))
	began = time.Now()
	revision := s.call("GET", "/v1/rules", "").wants(200).etag()
	if err := s.fetch(revision, "gzip"); err != nil {
		t.Error(err)
	}
	t.Logf("a whole snapshot in %v; the service took %d MB", time.Since(began), peak(process.Process.Pid))
}
