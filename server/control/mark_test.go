package control_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
)

func TestMarkRoundTrip(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 15, 18, 0, 0, 123456789, time.UTC)
	for _, m := range []control.Mark{{}, {Revision: 42}, control.NewMark(42, at), control.NewMark(0, time.Time{})} {
		got, err := control.ParseMark(m.String())
		if err != nil || got != m {
			t.Errorf("%s: got %v, %v", m, got, err)
		}
	}
	if got, want := control.NewMark(1, at).Time(), at.Truncate(time.Microsecond); !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := (control.Mark{Revision: 1}).Time(); !got.IsZero() {
		t.Errorf("got %v, want none", got)
	}
	for _, wrong := range []string{"", "42", "-", "42-", "-1", "-1-2", "+1-2", "4 2-1", "1-2-3", "99999999999999999999-1", "x-y"} {
		if m, err := control.ParseMark(wrong); err == nil {
			t.Errorf("%q: got %v, want an error", wrong, m)
		}
	}
}
