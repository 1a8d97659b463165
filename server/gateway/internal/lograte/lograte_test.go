package lograte

import (
	"testing"
	"time"
)

func TestLogLinesPerSecondAreBounded(t *testing.T) {
	l := PerSecond(3)
	at := time.Unix(1000, 0)
	var passed []int64
	for i := range 10 {
		if ok, dropped := l.Allow(at); ok {
			passed = append(passed, dropped)
		} else if i < 3 {
			t.Errorf("line %d did not pass", i)
		}
	}
	if len(passed) != 3 {
		t.Errorf("%d of 10 passed, want 3", len(passed))
	}
	if ok, dropped := l.Allow(at.Add(time.Second)); !ok || dropped != 7 {
		t.Errorf("a second later: %v, %d dropped, want it to pass with 7", ok, dropped)
	}
}
