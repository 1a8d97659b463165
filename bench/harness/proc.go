package harness

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Footprint is the memory of a process at one time, in bytes.
type Footprint struct {
	Heap int64 // spans of the heap that are in use
	RSS  int64
	Peak int64 // the highest RSS so far
}

// FreeMemory collects the garbage and returns free memory to the system, so that only memory in use remains.
func FreeMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}

// ReadFootprint returns the footprint of this process.
func ReadFootprint() (Footprint, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	status, err := readFields("/proc/self/status")
	if err != nil {
		return Footprint{}, fmt.Errorf("read own memory: %w", err)
	}
	rss, err := kilobytes(status["VmRSS"])
	if err != nil {
		return Footprint{}, fmt.Errorf("read VmRSS: %w", err)
	}
	peak, err := kilobytes(status["VmHWM"])
	if err != nil {
		return Footprint{}, fmt.Errorf("read VmHWM: %w", err)
	}
	return Footprint{Heap: int64(m.HeapInuse), RSS: rss, Peak: peak}, nil
}

// readFields reads a file with lines "name: value". If a name occurs several times, the first value counts.
func readFields(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, seen := fields[name]; ok && !seen {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields, nil
}

// kilobytes reads "123 kB" and returns bytes.
func kilobytes(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(s, " kB"), 10, 64)
	return n << 10, err
}

// CpuTime returns the processor time that this process has used.
func CpuTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read own processor time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
