package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestColumnsStandUnderEachOtherWhateverCellsAreEmpty(t *testing.T) {
	var out bytes.Buffer
	p := program{stdout: &out}
	err := p.table([]string{"ID", "BY", "NOTE"}, [][]string{{"a", "somebody", ""}, {"bb", "", "two\nlines"}, {"c", "x", "\x1b[31mred\ttab"}})
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

func TestTimesAreWrittenAsPeopleSayThem(t *testing.T) {
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
		if got := lasting(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
	for ms, want := range map[int64]string{0: "now", 230: "in 230ms", 9_994: "in 9.99s", 4_247_360: "in 1h10m47s"} {
		if got := soon(ms); got != want {
			t.Errorf("%d ms: got %q, want %q", ms, got, want)
		}
	}
	if got := until(time.Time{}); got != "never" {
		t.Errorf("no time: got %q, want never", got)
	}
	ends := time.Now().Add(72*time.Hour - time.Second)
	if got, want := until(ends), ends.Local().Format("2006-01-02 15:04")+" (in 3 days)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTimesAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2027-01-31":           time.Date(2027, 1, 31, 0, 0, 0, 0, time.Local),
		"2027-01-31 18:00":     time.Date(2027, 1, 31, 18, 0, 0, 0, time.Local),
		"2027-01-31T18:00":     time.Date(2027, 1, 31, 18, 0, 0, 0, time.Local),
		"2027-01-31 18:00:05":  time.Date(2027, 1, 31, 18, 0, 5, 0, time.Local),
		"2027-01-31T18:00:00Z": time.Date(2027, 1, 31, 18, 0, 0, 0, time.UTC),
	} {
		got, err := readTime(text)
		at, parsed := time.Parse(time.RFC3339, got)
		if err != nil || parsed != nil || !at.Equal(want) {
			t.Errorf("%q: got %q, %v, want %v", text, got, err, want)
		}
	}
	if got, err := readTime("Friday"); err == nil || !strings.Contains(err.Error(), "want a time such as") {
		t.Errorf("Friday: got %q, %v, want an error that says what would be right", got, err)
	}
}
