package headgate

import (
	"slices"
	"strings"
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
	return "; did you mean " + quote(nearest) + "?"
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
