package tour

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

const drawn = `
                  │0 s                │1 s                │2 s
  asked           ┊              ▪▪▪▪▪▪▪▪▪▪▪▪▪▪    ▪▪▪▪▪▪▪▪▪▪▪▪▪
  token-bucket    ┊              ██████··█···█·    █·█···█···█··     9 in 1 s
  gcra            ┊              ██████··█···█·    █·█···█···█··     9 in 1 s
  leaky-bucket    ┊              ██████··█···█·    █·█···█···█··     9 in 1 s
    and lets go   ┊              █   █┊  █   █   █   █   █┊  █   █   5 in 1 s
  fixed-window    ┊              ██████████····    ·······█████·    10 in 1 s
  sliding-log     ┊              █████·········    ··█████······     5 in 1 s
  sliding-window  ┊              █████··█···█··    ██···█···█···     9 in 1 s
  sliding-buckets ┊              █████·········    ·█·████······     6 in 1 s
  concurrency     ┊              █████·█████·██    █████·█████·█     5 at once
`

func draw(t *testing.T) []string {
	t.Helper()
	all, err := runLanes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d, _ := newDemo(false)
	return d.timeline(all)
}

func TestTheTimelineShowsWhatEveryAlgorithmLetsPass(t *testing.T) {
	if got := strings.Join(draw(t), "\n"); got != strings.Trim(drawn, "\n") {
		t.Errorf("got\n%s\nwant%s", got, drawn)
	}
}

func TestEveryAlgorithmHasALane(t *testing.T) {
	has := make(map[headgate.Algorithm]bool)
	for _, l := range lanes() {
		has[l.limit.Algorithm] = true
	}
	for _, a := range headgate.Algorithms() {
		if !has[a] {
			t.Errorf("%s has no lane", a)
		}
	}
}

func TestTheTimelinesInTheDocumentationAreTheseOnes(t *testing.T) {
	text, err := os.ReadFile("../../docs/algorithms.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := make(map[string]bool)
	for _, line := range draw(t) {
		lines[strings.TrimSpace(line)] = true
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		if !strings.ContainsAny(line, "┊│") {
			continue
		}
		found++
		if !lines[strings.TrimSpace(line)] {
			t.Errorf("docs/algorithms.md draws what is not so:\n%s", line)
		}
	}
	if found == 0 {
		t.Error("docs/algorithms.md has no timelines")
	}
}

func TestMostCountsWhatLiesWithinAWindow(t *testing.T) {
	at := func(ms ...int) (times []time.Duration) {
		for _, n := range ms {
			times = append(times, time.Duration(n)*time.Millisecond)
		}
		return times
	}
	for _, tt := range []struct {
		name  string
		times []time.Duration
		want  int
	}{
		{"nothing", nil, 0},
		{"one", at(500), 1},
		{"a window apart", at(0, 1000, 2000), 1},
		{"just within", at(0, 999), 2},
		{"in the middle", at(0, 700, 800, 1600, 3000), 3},
	} {
		if got := maxWithin(tt.times, time.Second); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}
