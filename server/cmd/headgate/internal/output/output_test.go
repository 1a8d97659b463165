package output

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestTableAlignsColumnsWithEmptyCells(t *testing.T) {
	var out bytes.Buffer
	err := WriteTable(&out, []string{"ID", "BY", "NOTE"}, [][]string{{"a", "somebody", ""}, {"bb", "", "two\nlines"}, {"c", "x", "\x1b[31mred\ttab"}})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"ID  BY        NOTE",
		"a   somebody",
		"bb            two lines",
		"c   x         \ufffd[31mred tab",
		"",
	}, "\n")
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestDurationsAreRounded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		400 * time.Millisecond:              "400ms",
		time.Second:                         "1 second",
		59 * time.Second:                    "59 seconds",
		90 * time.Second:                    "90 seconds",
		119500 * time.Millisecond:           "2 minutes",
		90 * time.Minute:                    "90 minutes",
		2*time.Hour - time.Second:           "2 hours",
		36 * time.Hour:                      "36 hours",
		72*time.Hour - time.Second:          "3 days",
		90*24*time.Hour - time.Millisecond:  "90 days",
		366*24*time.Hour + 11*time.Hour - 1: "366 days",
	} {
		if got := RoughDuration(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
	for ms, want := range map[int64]string{0: "now", 230: "in 230ms", 9_994: "in 9.99s", 4_247_360: "in 1h10m47s"} {
		if got := InMillis(ms); got != want {
			t.Errorf("%d ms: got %q, want %q", ms, got, want)
		}
	}
	if got := Expiry(time.Time{}); got != "never" {
		t.Errorf("no time: got %q, want never", got)
	}
	ends := time.Now().Add(72*time.Hour - time.Second)
	if got, want := Expiry(ends), ends.Local().Format("2006-01-02 15:04")+" (in 3 days)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
