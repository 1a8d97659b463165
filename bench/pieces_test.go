package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A part that was measured in pieces has the report of one that was measured at once, but for when.
func TestPiecesOfAPartMakeAWhole(t *testing.T) {
	whole := sampleGateway()
	whole.Bars = gatewayBars(whole)
	first, second := sampleGateway(), sampleGateway()
	first.Load, first.Only, first.Took = first.Load[:1], "proxies", 7*time.Minute
	first.Pace, first.Noise = nil, nil
	second.Load, second.Only, second.Took = second.Load[1:], "price|half-load|noise|refusals", 4*time.Minute
	second.Started = first.Started.Add(time.Hour)
	text, err := json.Marshal([]*results{{Part: "core"}, first})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "first.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := second.joinFile(path); err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(reportOf(whole), "took 11m0s", "took 11m0s in 2 pieces", 1)
	if got := reportOf(second); got != want {
		t.Errorf("the report of pieces is\n%s\nwant\n%s", got, want)
	}
}

func TestPiecesThatDoNotFitAreRefused(t *testing.T) {
	for name, change := range map[string]func(*results){
		"other sizes":            func(r *results) { r.Sizes = fullSizes(3) },
		"toy sizes":              func(r *results) { r.Quick = true },
		"the same thing twice":   func(*results) {},
		"a pattern that is none": func(r *results) { r.Pace, r.Noise, r.Only = nil, nil, "(" },
	} {
		earlier := sampleGateway()
		change(earlier)
		if err := sampleGateway().join(earlier); err == nil {
			t.Errorf("%s: no error, want one", name)
		}
	}
	if err := sampleGateway().joinFile(filepath.Join(t.TempDir(), "none.json")); err == nil {
		t.Error("a file that is not there: no error, want one")
	}
}
