package headgate

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// suggest returns a suggestion for an error message: the nearest of some words, or "" if none is near.
func suggest(word string, words []string) string {
	nearest, least := "", len(word)/3+1
	for _, w := range words {
		if d := editDistance(strings.ToLower(word), w); d <= least && (nearest == "" || d < least) {
			nearest, least = w, d
		}
	}
	if nearest == "" {
		return ""
	}
	return didYouMean(nearest)
}

func didYouMean(text string) string { return "; did you mean " + quote(text) + "?" }

// suggestCount returns a suggestion for a count with separators, a unit or an exponent: 1,000 and 10r and 1e3.
func suggestCount(count string) string {
	digits := strings.NewReplacer(",", "", "_", "", "'", "").Replace(count)
	digits = strings.TrimRightFunc(digits, unicode.IsLetter)
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || n < 1 || n > MaxCount || n != math.Trunc(n) {
		return ""
	}
	text := strconv.FormatInt(int64(n), 10)
	if text == count {
		return ""
	}
	return didYouMean(text)
}

// suggestWithoutNoun returns a suggestion for a limit such as "100 requests per minute", whose count is 100.
func suggestWithoutNoun(text, count string) string {
	_, rest, _ := strings.Cut(text, count)
	_, rest, _ = strings.Cut(strings.TrimSpace(rest)+" ", " ") // without its first word
	if _, period, found := strings.Cut(text, "/"); found {
		rest = "/" + period
	}
	if !strings.HasPrefix(rest, "/") && !strings.HasPrefix(rest, "per ") {
		return ""
	}
	l, err := ParseLimit(count + " " + rest)
	if err != nil {
		return ""
	}
	return didYouMean(l.String())
}

// suggestUnit returns a suggestion for a period.
func suggestUnit(period string) string {
	name := strings.TrimLeft(period, "0123456789.")
	switch strings.TrimSuffix(strings.ToLower(name), "s") {
	case "week", "w":
		return `; a week is "7d"`
	case "month", "mo":
		return `; a month has no fixed length: "30d" is close`
	case "year", "y":
		return `; a year is "365d"`
	}
	var names []string
	for long := range longUnits {
		names = append(names, long)
	}
	slices.Sort(names)
	return suggest(name, names)
}

// editDistance returns how many bytes have to be inserted, deleted or replaced to turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
