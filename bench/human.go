package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// humanCount writes 1250000 as "1.25 M".
func humanCount(n int) string {
	switch {
	case n >= 1_000_000:
		return strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64) + " M"
	case n >= 1_000:
		return strconv.FormatFloat(float64(n)/1e3, 'f', -1, 64) + " k"
	default:
		return strconv.Itoa(n)
	}
}

// humanNs writes nanoseconds with three digits or so: "86.4", "186", "1 646".
func humanNs(ns float64) string {
	if ns < 100 {
		return strconv.FormatFloat(ns, 'f', 1, 64)
	}
	return grouped(strconv.FormatFloat(ns, 'f', 0, 64))
}

// grouped parts digits in threes by thin spaces.
func grouped(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// humanDuration writes nanoseconds in the unit that suits them: "54 ns", "1.9 µs", "12.4 ms".
func humanDuration(ns float64) string {
	switch d := time.Duration(ns); {
	case d < time.Microsecond:
		return fmt.Sprintf("%.0f ns", ns)
	case d < time.Millisecond:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", ns/1e6)
	default:
		return fmt.Sprintf("%.1f s", ns/1e9)
	}
}

// humanAllocs writes allocations a decision; what the harness itself does once a run is not one.
func humanAllocs(n float64) string {
	if n < noAllocs {
		return "0"
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

// noAllocs is below how many allocations a decision there are none.
const noAllocs = 0.001

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }
func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
