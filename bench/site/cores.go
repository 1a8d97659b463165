package site

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// coreTimes is the time since boot of a core, and the time in which it was busy.
type coreTimes struct{ up, busy time.Duration }

func (c coreTimes) Since(then coreTimes) coreTimes {
	return coreTimes{up: c.up - then.up, busy: c.busy - then.busy}
}

// Share returns the share of time in which the core was busy.
func (c coreTimes) Share() float64 { return float64(c.busy) / float64(max(c.up, 1)) }

// readCore reads the times of a core since boot. The system counts them in hundredths of a second.
func readCore(core int) (coreTimes, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return coreTimes{}, err
	}
	return parseCore(string(text), core)
}

func parseCore(stat string, core int) (coreTimes, error) {
	name := "cpu" + strconv.Itoa(core)
	for line := range strings.Lines(stat) {
		words := strings.Fields(line)
		if len(words) < 9 || words[0] != name {
			continue
		}
		// user nice system idle iowait irq softirq steal; what follows is counted in user already
		var t coreTimes
		for i, word := range words[1:9] {
			n, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return coreTimes{}, fmt.Errorf("read %s in /proc/stat: %w", name, err)
			}
			spent := time.Duration(n) * (time.Second / 100)
			t.up += spent
			const idle, iowait = 3, 4
			if i != idle && i != iowait {
				t.busy += spent
			}
		}
		return t, nil
	}
	return coreTimes{}, fmt.Errorf("/proc/stat knows no %s", name)
}
