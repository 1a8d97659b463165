package main

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// A collection is what one full garbage collection cost.
type collection struct {
	// CPU is the greater of what the runtime says it spent and what the system charged to the process.
	CPU   time.Duration
	Pause time.Duration // all stops of the world of this cycle together
}

// collect runs one collection with the contender alive.
func collect(c contender) (collection, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	runtimeBefore := gcSeconds()
	cpuBefore, err := cpuTime()
	if err != nil {
		return collection{}, err
	}
	runtime.GC()
	cpuAfter, err := cpuTime()
	if err != nil {
		return collection{}, err
	}
	runtimeAfter := gcSeconds()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(c)
	bySystem := cpuAfter - cpuBefore
	byRuntime := time.Duration((runtimeAfter - runtimeBefore) * float64(time.Second))
	return collection{
		CPU:   max(bySystem, byRuntime),
		Pause: time.Duration(after.PauseTotalNs - before.PauseTotalNs),
	}, nil
}

func gcSeconds() float64 {
	sample := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64()
}
