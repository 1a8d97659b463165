package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/accesslogs"
	"github.com/headgate/headgate/server/sim"
	"github.com/headgate/headgate/server/sim/report"
)

func results() *sim.Results {
	return &sim.Results{
		Scenario: "a <b> & c", Seed: 7, Duration: 10, SampleOneIn: 100,
		Logs: []sim.Log{{File: "access.log", Stats: accesslogs.Stats{
			Requests: 12, Skipped: 1, Examples: []accesslogs.Skipped{{Line: 3, Reason: "no time", Text: "<script>"}},
		}}},
		Results: []*sim.Result{
			{
				Algorithm: "token-bucket", Mode: "exact", Simulated: 10, Requests: 1234567, Admitted: 1000000, Denied: 234567,
				Series: sim.Series{StepSeconds: 5, Admitted: []int64{400000, 600000}, WronglyDenied: []int64{0, 0}},
				Marks:  []sim.Mark{{Seconds: 5, Text: "crash"}},
			},
			{Algorithm: "token-bucket", Mode: "async", Simulated: 5, Partial: true, WronglyAdmitted: 3, Requests: 100},
			{Algorithm: "token-bucket", Mode: "gossip", Partial: true},
		},
	}
}

func TestThePageIsCompleteAndSelfContained(t *testing.T) {
	var b bytes.Buffer
	if err := report.Write(&b, results()); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"<h1>a &lt;b&gt; &amp; c</h1>", "1\u202f234\u202f567", "Admitted requests per second", "crash", "1 in 100 clients",
		`gossip <span class="partial">not simulated</span>`, "3 (3%)",
		"token-bucket async is partial: the first 5.0 s of 10 s.", "1 lines could not be used",
		"access.log:3: no time: &lt;script&gt;", "prefers-color-scheme: dark",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, bad := range []string{"<script", "src=", "href=", "@import", "url("} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q, want nothing from elsewhere", bad)
		}
	}
	if strings.Contains(page, "Wrongly denied requests per second") {
		t.Error("the page has a chart of a figure that is 0 all the time")
	}
}

func TestOneResultIsShownBesideItsRequests(t *testing.T) {
	all := results()
	if got := report.Picture(all, report.Admitted); strings.Contains(got, "all requests") {
		t.Errorf("got %s, want no line of requests beside two results", got)
	}
	all.Results = all.Results[:1]
	all.Results[0].Series.Requests = []int64{700000, 600000}
	if got := report.Picture(all, report.Admitted); !strings.Contains(got, "all requests") {
		t.Errorf("got %s, want a line of all requests", got)
	}
	if got := report.Picture(all, report.RedisCalls); strings.Contains(got, "all requests") {
		t.Errorf("got %s, want no line of requests beside calls of Redis", got)
	}
}

func TestPicturesStandAlone(t *testing.T) {
	got := report.Picture(results(), report.Admitted)
	if !strings.HasPrefix(got, "<svg ") || !strings.Contains(got, "<style>") || !strings.Contains(got, "token-bucket exact") {
		t.Errorf("got %s, want a picture with its style", got)
	}
	if got := report.Picture(results(), report.WronglyDenied); !strings.Contains(got, ": none") {
		t.Errorf("got %s, want one that says that there are none", got)
	}
}
