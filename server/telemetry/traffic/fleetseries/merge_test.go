package fleetseries

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/server/telemetry/traffic"
	"github.com/headgate/headgate/server/telemetry/traffic/ruleorder"
)

// Rules are sorted by the sums of all nodes. A node of an old version returns rules that were not selected.
func TestMergedSeriesKeepOrderAndSelection(t *testing.T) {
	start := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	columns := func(requests, denied uint64) traffic.Columns {
		c := zeroColumns(2)
		c.Requests[1], c.Denied[1] = requests, denied
		return c
	}
	series := func(rules ...traffic.RuleSeries) *traffic.Series {
		return &traffic.Series{Step: "1s", Start: start, Total: columns(9, 0), Rules: rules}
	}
	list := []*traffic.Series{
		nil,
		series(traffic.RuleSeries{Rule: "a", Columns: columns(9, 1)}, traffic.RuleSeries{Rule: "b", Columns: columns(5, 2)}),
		series(traffic.RuleSeries{Rule: "c", Columns: columns(8, 2)}, traffic.RuleSeries{Rule: "b", Columns: columns(1, 1)}),
	}
	for _, tt := range []struct {
		query traffic.SeriesQuery
		want  string
	}{
		{traffic.SeriesQuery{Limit: 9}, "a 9, c 8, b 6, 0 more of 18"},
		{traffic.SeriesQuery{Limit: 2, Order: ruleorder.ByDenied}, "b 6, c 8, 1 more of 18"},
		{traffic.SeriesQuery{Limit: 9, Rules: []string{"a", "b"}}, "a 9, b 6, 0 more of 18"},
	} {
		got, text := Merge(list, &tt.query), ""
		for _, r := range got.Rules {
			text += fmt.Sprintf("%s %d, ", r.Rule, r.Requests[1])
		}
		if text += fmt.Sprintf("%d more of %d", got.MoreRules, got.Total.Requests[1]); text != tt.want {
			t.Errorf("%+v: got %s, want %s", tt.query, text, tt.want)
		}
	}
	if got := Merge(nil, &traffic.SeriesQuery{}); got != nil {
		t.Errorf("got %v without series, want nil", got)
	}
}
