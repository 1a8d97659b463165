package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseNumber reads a number such as 100M, 1.5k or 3000000.
func ParseNumber(text string) (float64, error) {
	scale := 1.0
	digits := text
	for _, suffix := range []struct {
		letters string
		scale   float64
	}{{"kK", 1e3}, {"mM", 1e6}, {"gGbB", 1e9}, {"tT", 1e12}} {
		if text != "" && strings.ContainsAny(text[len(text)-1:], suffix.letters) {
			scale, digits = suffix.scale, text[:len(text)-1]
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(n >= 0 && n*scale <= 1e15) {
		return 0, fmt.Errorf("%q: want a number such as 1500, 20k, 100M or 1.5G", text)
	}
	return n * scale, nil
}

// Number formats a number with about four digits and a suffix: 188.7k, 3M.
func Number(n float64) string {
	for _, suffix := range []struct {
		letter string
		scale  float64
	}{{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e4}} {
		if n >= suffix.scale {
			if suffix.letter == "k" {
				return short(n/1e3, 1) + "k"
			}
			return short(n/suffix.scale, 2) + suffix.letter
		}
	}
	if n > 0 && n < 1e-3 {
		return short(n, 6)
	}
	decimals := 0
	for limit := 1e3; decimals < 3 && n < limit; limit /= 10 {
		decimals++
	}
	return short(n, decimals)
}

// short formats a number with at most the given number of decimals.
func short(n float64, decimals int) string {
	text := strconv.FormatFloat(n, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// Bytes formats an amount of memory or traffic: 35.6 GB.
func Bytes(n float64) string {
	for _, unit := range []struct {
		name  string
		scale float64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if n >= unit.scale {
			return short(n/unit.scale, 1) + " " + unit.name
		}
	}
	return short(n, 1) + " B"
}
