package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/bench/gateway"
	"github.com/headgate/headgate/bench/harness"
)

// A part that was measured in pieces has the report of one that was measured at once, but for when.
func TestPiecesOfAPartMakeAWhole(t *testing.T) {
	whole := sampleGateway()
	whole.Bars = gateway.Bars(whole)
	first, second := sampleGateway(), sampleGateway()
	first.Load, first.Only, first.Took = first.Load[:1], "proxies", 7*time.Minute
	first.Pace, first.Steady, first.Noise = nil, nil, nil
	second.Load, second.Only, second.Took = second.Load[1:], "http2|large|posts|new-connections|tls|access-log|connections|steady|price|half-load|noise|refusals", 4*time.Minute
	second.Started = first.Started.Add(time.Hour)
	text, err := json.Marshal([]*harness.Results{{Part: "core"}, first})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "first.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := second.JoinFile(partOf(second.Part), path); err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(harness.ReportOf(partOf(whole.Part), whole), "took 11m0s", "took 11m0s in 2 pieces", 1)
	if got := harness.ReportOf(partOf(second.Part), second); got != want {
		t.Errorf("the report of pieces is\n%s\nwant\n%s", got, want)
	}
}

func TestPiecesThatDoNotFitAreRefused(t *testing.T) {
	for name, change := range map[string]func(*harness.Results){
		"other sizes":            func(r *harness.Results) { r.Sizes = harness.FullSizes(3) },
		"toy sizes":              func(r *harness.Results) { r.Quick = true },
		"the same thing twice":   func(*harness.Results) {},
		"a pattern that is none": func(r *harness.Results) { r.Pace, r.Steady, r.Noise, r.Only = nil, nil, nil, "(" },
	} {
		earlier := sampleGateway()
		change(earlier)
		if err := sampleGateway().Join(partOf("gateway"), earlier); err == nil {
			t.Errorf("%s: no error, want one", name)
		}
	}
	if err := sampleGateway().JoinFile(partOf("gateway"), filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("a file that is not there: no error, want one")
	}
}
