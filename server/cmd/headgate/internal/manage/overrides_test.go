package manage

import (
	"strings"
	"testing"
	"time"
)

func TestParseTimeAcceptsDatesAndTimes(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2027-01-31":           time.Date(2027, 1, 31, 0, 0, 0, 0, time.Local),
		"2027-01-31 18:00":     time.Date(2027, 1, 31, 18, 0, 0, 0, time.Local),
		"2027-01-31T18:00":     time.Date(2027, 1, 31, 18, 0, 0, 0, time.Local),
		"2027-01-31 18:00:05":  time.Date(2027, 1, 31, 18, 0, 5, 0, time.Local),
		"2027-01-31T18:00:00Z": time.Date(2027, 1, 31, 18, 0, 0, 0, time.UTC),
	} {
		got, err := parseTime(text)
		at, parsed := time.Parse(time.RFC3339, got)
		if err != nil || parsed != nil || !at.Equal(want) {
			t.Errorf("%q: got %q, %v, want %v", text, got, err, want)
		}
	}
	if got, err := parseTime("Friday"); err == nil || !strings.Contains(err.Error(), "want a time such as") {
		t.Errorf("Friday: got %q, %v, want an error with an example", got, err)
	}
}
