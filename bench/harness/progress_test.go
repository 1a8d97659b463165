package harness

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestProgressPrintsALineForEachStage(t *testing.T) {
	now := time.Unix(0, 0)
	var out bytes.Buffer
	p := NewProgress(&out, false, func() time.Time { return now }, 100)
	p.scenario(60)
	p.At(0, "first", "a")
	now = now.Add(30 * time.Second)
	p.At(0.5, "first", "b")
	p.At(0.5, "second", "a")
	p.scenario(40)
	now = now.Add(30 * time.Second)
	p.At(0, "third", "")
	p.End()
	want := "  0 %  first\n 30 %  second, 1m10s left\n 60 %  third, 40s left\n"
	if got := out.String(); got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

func TestProgressDrawsABarOnATerminal(t *testing.T) {
	now := time.Unix(0, 0)
	var out bytes.Buffer
	p := NewProgress(&out, true, func() time.Time { return now }, 100)
	p.scenario(100)
	now = now.Add(time.Minute)
	p.At(0.5, "zipf, round 3 of 11", "zipf-2 throttled")
	p.End()
	want := "\r\x1b[K[############............]  50 %  zipf, round 3 of 11: zipf-2 throttled, 1m0s left"
	if got := out.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("drew %q, want first %q and at the end a clean line", got, want)
	}
}
