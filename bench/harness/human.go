package harness

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// HumanRate formats a rate for the report.
func HumanRate(perSecond float64) string { return Grouped(fmt.Sprintf("%.0f", perSecond)) }

// Ratio formats a factor with enough digits to see whether it is below 1.
func Ratio(of float64) string {
	if of < 10 {
		return fmt.Sprintf("%.2f ×", of)
	}
	return fmt.Sprintf("%.0f ×", of)
}

// HumanCount formats 1250000 as "1.25 M".
func HumanCount(n int) string {
	switch {
	case n >= 1_000_000:
		return strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64) + " M"
	case n >= 1_000:
		return strconv.FormatFloat(float64(n)/1e3, 'f', -1, 64) + " k"
	default:
		return strconv.Itoa(n)
	}
}

// HumanNs formats nanoseconds with about three digits: "86.4", "186", "1 646".
func HumanNs(ns float64) string {
	if ns < 100 {
		return strconv.FormatFloat(ns, 'f', 1, 64)
	}
	return Grouped(strconv.FormatFloat(ns, 'f', 0, 64))
}

// Grouped separates groups of three digits by thin spaces.
func Grouped(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// HumanDuration formats nanoseconds in a suitable unit: "54 ns", "1.9 µs", "12.4 ms".
func HumanDuration(ns float64) string {
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

// HumanAllocs formats the allocations per decision. It ignores the few allocations of the harness itself.
func HumanAllocs(n float64) string {
	if n < NoAllocs {
		return "0"
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

// NoAllocs is the number of allocations per decision below which they count as none.
const NoAllocs = 0.001

// Gib converts bytes to GiB.
func Gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// Mib converts bytes to MiB.
func Mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
