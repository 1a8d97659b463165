package headgate

import (
	"slices"
	"strings"
)

// suggest returns a suggestion for an error message: the most similar of words, or "" if none is similar.
func suggest(word string, words []string) string {
	if w := nearestWord(word, words); w != "" {
		return didYouMean(w)
	}
	return ""
}

func didYouMean(text string) string { return "; did you mean " + quote(text) + "?" }

// nearestWord returns the element of words with the smallest edit distance to word, or "" if none is similar enough.
func nearestWord(word string, words []string) string {
	best, distance := "", len(word)/3+1
	for _, w := range words {
		if d := editDistance(strings.ToLower(word), w); d <= distance && (best == "" || d < distance) {
			best, distance = w, d
		}
	}
	return best
}

// explainUnit returns a hint for an error message about a period in weeks, months or years, which limits do not have.
func explainUnit(period string) string {
	name := strings.TrimLeft(period, "0123456789.")
	switch strings.TrimSuffix(strings.ToLower(name), "s") {
	case "week", "w":
		return `; a week is "7d"`
	case "month", "mo":
		return `; a month has no fixed length: "30d" is close`
	case "year", "y":
		return `; a year is "365d"`
	}
	return ""
}

// unitNames returns the long names of the units in a fixed order.
func unitNames() []string {
	var names []string
	for long := range longUnits {
		names = append(names, long)
	}
	slices.Sort(names)
	return names
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
			replaceCost := diagonal
			if a[i] != b[j] {
				replaceCost++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaceCost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
