package rules_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/manyrules"
	"github.com/headgate/headgate/rules"
)

// costOf returns the cost of a valid rule with its defaults.
func costOf(t *testing.T, c rules.Cost) *rules.Cost {
	t.Helper()
	r := rules.Rule{ID: "a", Cost: c, Limits: []rules.Limit{{Limit: headgate.PerSecond(1000)}}}
	if err := rules.Validate([]rules.Rule{r}); err != nil {
		t.Fatal(err)
	}
	r = r.WithDefaults()
	return &r.Cost
}

func TestCostOfARequest(t *testing.T) {
	header := rules.Cost{Header: "X-Cost", Min: 2, Max: 50}
	for _, tt := range []struct {
		name   string
		cost   rules.Cost
		header string // "-" for none
		want   int64
	}{
		{"by default", rules.Cost{}, "-", 1},
		{"a number", rules.Cost{Units: 7}, "9", 7},
		{"what the header says", header, "9", 9},
		{"spaces around it", header, " 9\t", 9},
		{"no header", header, "-", 2},
		{"an empty header", header, "", 2},
		{"less than the least", header, "1", 2},
		{"nothing", header, "0", 2},
		{"below nothing", header, "-5", 2},
		{"more than the most", header, "51", 50},
		{"more than fits a number", header, "99999999999999999999999", 50},
		{"no whole number", header, "1.5", 2},
		{"no number", header, "many", 2},
		{"other digits", header, "٣", 2},
		{"sent twice, the most first", header, "30, 9", 30},
		{"sent twice, the most last", header, "9, 30", 30},
		{"sent twice, once no number", header, "many, 30", 30},
		{"sent twice, never a number", header, "many, more", 2},
		{"commas", header, ",,", 2},
		{"the least is 1 by default", rules.Cost{Header: "X-Cost", Max: 5}, "0", 1},
		{"an estimate", rules.Cost{ResponseHeader: "X-Used", Estimate: 100}, "9", 100},
		{"the estimate by default", rules.Cost{ResponseHeader: "X-Used"}, "9", 1},
	} {
		request := rules.Attributes{}
		if tt.header != "-" {
			request[headgate.Attribute{Kind: headgate.AttrHeader, Name: "x-cost"}] = tt.header
		}
		if got := costOf(t, tt.cost).Initial(request); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestCostIsSettledByTheResponse(t *testing.T) {
	for _, tt := range []struct {
		cost   rules.Cost
		header string
		want   int64
		ok     bool
	}{
		{rules.Cost{ResponseHeader: "X-Used", Estimate: 100}, "250", 250, true},
		{rules.Cost{ResponseHeader: "X-Used", Estimate: 100}, "0", 0, true},
		{rules.Cost{ResponseHeader: "X-Used", Estimate: 100}, "", 0, false},
		{rules.Cost{ResponseHeader: "X-Used", Estimate: 100}, "-3", 0, false},
		{rules.Cost{ResponseHeader: "X-Used", Max: 200}, "250", 200, true},
		{rules.Cost{ResponseHeader: "X-Used", Min: 5}, "1", 5, true},
		{rules.Cost{ResponseHeader: "X-Used"}, "99999999999999999999", headgate.MaxCount, true},
	} {
		got, ok := costOf(t, tt.cost).FromResponse(tt.header)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("%+v, %q: got %d, %v, want %d, %v", tt.cost, tt.header, got, ok, tt.want, tt.ok)
		}
	}
}

func TestCostAllocatesNothing(t *testing.T) {
	cost := costOf(t, rules.Cost{Header: "X-Cost", Max: 50})
	r := &manyrules.Request{Headers: [][2]string{{"x-cost", "17"}}}
	if got := testing.AllocsPerRun(100, func() { cost.Initial(r) }); got != 0 {
		t.Errorf("Reserve allocates %v times, want 0", got)
	}
}
