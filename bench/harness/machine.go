package harness

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// A Machine describes the machine of a run.
type Machine struct {
	CPU       string
	Cores     int
	Memory    int64 // bytes
	Kernel    string
	Go        string
	HugePages string  // the system's transparent_hugepage setting
	Load      float64 // runnable tasks in the minute before the run
	Steal     float64 // share of the run in which the hypervisor gave a core to somebody else
}

// ThisMachine describes the machine that the benchmark runs on.
func ThisMachine() Machine {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version() + " " + runtime.GOOS + "/" +
		runtime.GOARCH}
	if info, err := readFields("/proc/cpuinfo"); err == nil && info["model name"] != "" {
		m.CPU = info["model name"]
	}
	if info, err := readFields("/proc/meminfo"); err == nil {
		m.Memory, _ = kilobytes(info["MemTotal"])
	}
	m.Kernel = readWord("/proc/sys/kernel/osrelease", 0)
	m.Load, _ = strconv.ParseFloat(readWord("/proc/loadavg", 0), 64)
	setting, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if _, rest, ok := strings.Cut(string(setting), "["); ok {
		m.HugePages, _, _ = strings.Cut(rest, "]")
	}
	return m
}

// readWord returns a word of a file, or "" if there is none.
func readWord(path string, i int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if words := strings.Fields(string(text)); i < len(words) {
		return words[i]
	}
	return ""
}

// ticks is the time that the processors have spent since boot, in ticks.
type ticks struct{ total, steal int64 }

// readTicks returns zeros if /proc/stat cannot be read.
func readTicks() (t ticks) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t
	}
	line, _, _ := strings.Cut(string(text), "\n")
	const stealAt, last = 8, 8 // guest time, behind steal, is counted in user time already
	for i, word := range strings.Fields(line) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || i > last {
			continue
		}
		t.total += n
		if i == stealAt {
			t.steal = n
		}
	}
	return t
}

// stealSince returns the share of time that the hypervisor has taken since then.
func stealSince(then ticks) float64 {
	now := readTicks()
	if now.total <= then.total {
		return 0
	}
	return float64(now.steal-then.steal) / float64(now.total-then.total)
}
