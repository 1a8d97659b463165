package chart_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/sim/chart"
)

// wellFormed fails the test if a text is no XML.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, text)
		}
	}
}

func TestLinesAreDrawnToScale(t *testing.T) {
	c := chart.LineChart{
		Title: "admitted <per second>", XUnit: "s", Step: 1, Bound: 50, BoundLabel: "limit",
		Series: []chart.Series{{"exact & fast", []float64{0, 50, 100}}}, Marks: []chart.Mark{{1, "crash"}},
	}
	got := c.SVG(true)
	wellFormed(t, got)
	// The plot is 680 wide and 180 high, from (64, 46) on.
	for _, want := range []string{"M177.3 226.0L404.0 136.0L630.7 46.0", "<style>", "exact &amp; fast", "crash", "limit"} {
		if !strings.Contains(got, want) {
			t.Errorf("the picture has no %q:\n%s", want, got)
		}
	}
	if strings.Contains(c.SVG(false), "<style>") {
		t.Error("an embedded picture has a style sheet of its own")
	}
}

func TestTimesOfTheAxisAreRound(t *testing.T) {
	c := chart.LineChart{XUnit: "s", Step: 1, Series: []chart.Series{{"a", make([]float64, 20)}}}
	got := c.SVG(true)
	for _, want := range []string{">0 s<", ">5 s<", ">15 s<", ">20 s<"} {
		if !strings.Contains(got, want) {
			t.Errorf("the picture has no %q:\n%s", want, got)
		}
	}
}

func TestBarsShareOneScale(t *testing.T) {
	c := chart.BarChart{
		Title: "decisions", Parts: []string{"admitted", "denied"},
		Bars: []chart.Bar{{"a", []float64{1, 3}, "4"}, {"b", []float64{2, 0}, "2"}},
	}
	got := c.SVG(true)
	wellFormed(t, got)
	for _, want := range []string{`width="100.0"`, `width="300.0"`, `width="200.0"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the picture has no %s:\n%s", want, got)
		}
	}
}

func TestNumbersAreShort(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0", 12.34: "12.3", 999.4: "999", 999.9: "1k", -999.9: "-1k", 1500: "1.5k", 999_400: "999k", 999_999: "1M",
		2.5e6: "2.5M", 3e9: "3G", 4e12: "4T",
	} {
		if got := chart.Number(n); got != want {
			t.Errorf("Number(%g) = %s, want %s", n, got, want)
		}
	}
}
