package api_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/control/api"
)

// rulesOf returns a rules file of JSON.
func rulesOf(n int) string {
	var b strings.Builder
	b.WriteString(`{"rules":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"r%d","when":{"path":"/p%d/**"},"key":["ip"],"limits":["10/s burst 20","1000/h"]}`, i, i)
	}
	b.WriteString(`]}`)
	return b.String()
}

// allocated returns the bytes that a function allocates in total, at least as many as it holds at any time.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

func TestNoBodyTakesMoreThan64MB(t *testing.T) {
	racing.Skip(t, "it measures memory, of which the race detector takes much")
	s := open(t, api.Config{Node: engineOf(t, explained)})
	viewer := s.token("v", "viewer", "default")
	const yaml, json = "application/yaml", "application/json"
	long := func(text string, bytes int) string { return strings.Repeat(text, bytes/len(text)) }
	for _, tt := range []struct{ name, media, body string }{
		{"comments", yaml, long("#\n", 9e6) + "rules: []"},
		{"nested dashes", yaml, long("- ", 9e6)},
		{"a literal", yaml, "a: |\n" + long(" x\n", 9e6)},
		{"brackets", yaml, long("[", 9e6)},
		{"one key", yaml, long("a: 1\n", 9e6)},
		{"a long scalar", yaml, "a: " + long("x", 500e3)},
		{"as many comments as may be", yaml, long("#\n", 52e3)},
		{"as many items as may be", yaml, long("- a\n", 104e3)},
		{"as many lists as may be", yaml, "[" + long("[],", 38e3) + "]"},
		{"as many keys as may be", yaml, "rules:\n" + long("- {a: b}\n", 60e3)},
		{"zeros", json, `{"rules":[` + long("0,", 9e6) + "0]}"},
		{"as many zeros as may be", json, `{"rules":[` + long("0,", 98e3) + "0]}"},
		{"empty mappings", json, `{"rules":[` + long("{},", 149e3) + "{}]}"},
		{"lists of zeros", json, `[` + long("["+long("0,", 80e3)+"0],", 560e3) + "0]"},
		{"lists of mappings", json, `{"rules":[` + long("["+long(`{"a":1},`, 320e3)+"0],", 800e3) + "0]}"},
		{"a long text", json, `{"rules":["` + long("x", 9e6) + `"]}`},
		{"one line of mistakes", json, `{"rules":[` + long(`0,`, 2e3) + `"` + long("x", 9e6) + `"]}`},
		{"without a type", "", long("[", 9e6)},
	} {
		for _, path := range []string{"/v1/validate", "/v1/explain"} {
			var header []string
			if tt.media != "" {
				header = []string{"Content-Type", tt.media}
			}
			got := allocated(func() { s.as(viewer, "POST", path, tt.body, header...) })
			if got > 64<<20 {
				t.Errorf("%s, %d bytes, %s: %d MB allocated, want at most 64", tt.name, len(tt.body), path, got>>20)
			}
		}
	}
}

func TestTenThousandRulesAreApplied(t *testing.T) {
	racing.Skip(t, "one request follows another, so there are no races")
	s := open(t, api.Config{})
	s.call("POST", "/v1/rules:apply", rulesOf(10_000)).wants(200)
	s.call("POST", "/v1/validate", rulesOf(10_000)).wants(200, `"rules":10000`)
	var yaml strings.Builder
	yaml.WriteString("rules:\n")
	for i := range 2000 {
		fmt.Fprintf(&yaml, "  - id: r%d\n    when:\n      path: /p%d/**\n    key: ip\n    limits:\n      - 10/s burst 20\n      - 1000/h\n", i, i)
	}
	s.call("POST", "/v1/rules:apply", yaml.String(), "Content-Type", "application/yaml").wants(200)
}

// Large bodies wait for each other, and all are read in the end.
func TestLargeBodiesAreReadInTurn(t *testing.T) {
	s := open(t, api.Config{})
	tokens := []string{s.token("v1", "viewer", "default"), s.token("v2", "viewer", "default"), s.token("e", "editor", "default")}
	var wait sync.WaitGroup
	for i := range 12 {
		wait.Go(func() { s.as(tokens[i%len(tokens)], "POST", "/v1/validate", rulesOf(500)).wants(200, `"rules":500`) })
	}
	wait.Wait()
}
