//go:build !race

package doccheck

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// loads are how many times its limit a client asks for.
var loads = []float64{0.8, 0.9, 1.2, 2, 10}

func TestTheTableOfHowFarOffAlgorithmsAreIsWhatTheyGive(t *testing.T) {
	text := read(t, "docs/algorithms.md")
	for _, name := range []string{
		"sliding-log", "sliding-buckets 60", "sliding-buckets 10", "sliding-window", "fixed-window", "token-bucket",
	} {
		limit := headgate.MustParseLimit("100/m " + name)
		row := "| " + name + " |"
		for _, load := range loads {
			share, most := crowd(t, limit, load)
			row += fmt.Sprintf(" %.1f %%, %d |", 100*share, most)
		}
		if os.Getenv("HEADGATE_UPDATE_ACCURACY") != "" {
			text = regexp.MustCompile(`(?m)^\| `+name+` \| [0-9.]+ %, .*$`).ReplaceAllLiteralString(text, row)
			if err := os.WriteFile(filepath.Join(root, "docs/algorithms.md"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(text, "\n"+row+"\n") {
			t.Errorf("docs/algorithms.md has no row, set HEADGATE_UPDATE_ACCURACY=1 to write it\n%s", row)
		}
		if share, _ := crowd(t, limit, 0.5); share != 1 {
			t.Errorf("%s: got %.5f of the requests passed of one who asks for half its limit, want all", name, share)
		}
	}
}

// crowd lets a client ask at random, for so many times its limit, and returns what share of its requests passed, and
// the most that did within one period.
func crowd(t *testing.T, limit headgate.Limit, load float64) (share float64, most int) {
	t.Helper()
	const requests = 100_000
	plan, err := algorithm.NewPlan(limit)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	pause := float64(limit.Period/time.Microsecond) / float64(limit.Count) / load
	var state algorithm.State
	var period []int64 // when those passed that lie within the last period
	at, passed := 0.0, 0
	for range requests {
		at += float64(rng.ExpFloat64() * pause) // rounded in between, on every machine
		now := int64(at)
		var d headgate.Decision
		if state, d = plan.Take(state, now, 1, 0); !d.Allowed {
			continue
		}
		passed++
		period = append(period, now)
		for period[0] <= now-limit.Period.Microseconds() {
			period = period[1:]
		}
		most = max(most, len(period))
	}
	return float64(passed) / requests, most
}
