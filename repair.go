package headgate

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// withSuggestion adds to err the limit that the text probably means, if there is one.
func withSuggestion(err error, text string) error {
	l, repairError := parseLimit(repair(text))
	var input *InputError
	if repairError == nil && errors.As(err, &input) {
		input.Want += didYouMean(l.String())
	}
	return err
}

// repair rewrites a limit in a spelling that people or other libraries use, such as "10 rps", to the form that
// parseLimit reads. The result may still be invalid.
func repair(text string) string {
	text = strings.Join(strings.Fields(repairPunctuation(text)), " ")
	words := strings.Fields(slashSpaces.Replace(concurrencyPhrases.Replace(text)))
	if len(words) == 0 {
		return ""
	}
	count, period, _ := strings.Cut(words[0], "/")
	count, noun := splitNoun(count)
	words = words[1:]
	if noun == "" && period == "" && len(words) > 0 && !isPer(words[0]) && !isConcurrent(words[0]) {
		noun, period, _ = strings.Cut(words[0], "/") // "10 requests/s"
		words = words[1:]
	}
	if period == "" {
		period = rateAbbreviations[strings.ToLower(noun)]
	}
	if period == "" && len(words) > 1 && isPer(words[0]) {
		period, words = words[1], words[2:]
	}
	if isNumber(period) && len(words) > 0 {
		period, words = period+words[0], words[1:]
	}
	settings := repairSettings(words)
	for _, word := range append(words, noun) {
		if isConcurrent(word) {
			return count + " concurrent" + strings.ReplaceAll(settings, " concurrent", "")
		}
	}
	return count + "/" + repairPeriod(period) + settings
}

// rateAbbreviations maps abbreviations, such as rps in "10 rps", to their periods.
var rateAbbreviations = map[string]string{
	"rps": "s", "tps": "s", "qps": "s", "rpm": "m", "tpm": "m", "qpm": "m", "rph": "h", "rpd": "d",
}

var concurrencyPhrases = strings.NewReplacer(" in flight", " concurrent", " at once", " concurrent")

func isPer(word string) bool {
	switch strings.ToLower(word) {
	case "per", "every", "each", "a", "an":
		return true
	}
	return false
}

func isConcurrent(word string) bool {
	switch strings.ToLower(word) {
	case "concurrent", "concurrency", "concurrently", "parallel", "in-flight", "inflight", "simultaneous":
		return true
	}
	return false
}

// repairPunctuation rewrites 1,000 and 1_000 and 1'000 to 1000, 1000-H to 1000/H, and token_bucket to token-bucket. It
// replaces other commas, and ; : =, by spaces.
func repairPunctuation(text string) string {
	var b strings.Builder
	rs := []rune(text)
	for i, r := range rs {
		before, after := ' ', ' '
		if i > 0 {
			before = rs[i-1]
		}
		if i+1 < len(rs) {
			after = rs[i+1]
		}
		switch betweenDigits := unicode.IsDigit(before) && unicode.IsDigit(after); {
		case strings.ContainsRune(",_'", r) && betweenDigits:
		case r == '-' && unicode.IsDigit(before) && unicode.IsLetter(after):
			b.WriteByte('/')
		case r == '_':
			b.WriteByte('-')
		case strings.ContainsRune(",;:=", r):
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// splitNoun splits "10req" into the count "10" and the noun "req". If there is no noun, it returns the count: "10k"
// unchanged, "1e3" as "1000".
func splitNoun(text string) (count, noun string) {
	noun = strings.TrimLeft(text, "0123456789.")
	count = strings.TrimSuffix(text, noun)
	if noun == "" {
		return text, ""
	}
	if strings.Trim(noun, "kKMG") == "" {
		return text, ""
	}
	if digits := wholeNumber(text, 1); digits != "" {
		return digits, ""
	}
	if !isWord(noun) {
		return text, ""
	}
	return count, noun
}

func isWord(s string) bool { return strings.TrimFunc(s, unicode.IsLetter) == "" }

// wholeNumber multiplies a number such as 1e3 or 1.0 by factor and returns the product in digits, or "" if the product
// is not a valid count.
func wholeNumber(text string, factor uint64) string {
	n, err := strconv.ParseFloat(text, 64)
	if n *= float64(factor); err != nil || n < 1 || n > MaxCount || n != math.Trunc(n) {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

// repairPeriod replaces the unit of a period by the most similar one.
func repairPeriod(period string) string {
	unit := strings.TrimLeft(period, "0123456789")
	if _, err := parsePeriod("Period", period); err == nil || unit == "" || !isWord(unit) {
		return period
	}
	if name := nearestWord(unit, unitNames()); name != "" {
		return strings.TrimSuffix(period, unit) + name
	}
	return period
}

// repairSettings returns the settings that follow the count and the period, each with a space in front.
func repairSettings(words []string) string {
	names := append(algorithmNames(), "burst", "ttl", "staggered")
	var b strings.Builder
	for i := 0; i < len(words); i++ {
		word := strings.ToLower(words[i])
		if i+1 < len(words) {
			if joined := word + "-" + strings.ToLower(words[i+1]); isAlgorithm(joined) {
				word = joined
				i++
			} else if _, isUnit := unitSize(words[i+1]); isUnit && isNumber(word) {
				word += words[i+1] // "ttl 30 s"
				i++
			}
		}
		b.WriteByte(' ')
		switch name := nearestWord(word, names); {
		case isConcurrent(word):
			b.WriteString("concurrent")
		case word[0] >= '0' && word[0] <= '9':
			b.WriteString(repairCount(word))
		case name != "":
			b.WriteString(name)
		default:
			b.WriteString(word)
		}
	}
	return b.String()
}

func isAlgorithm(name string) bool {
	_, err := ParseAlgorithm(name)
	return err == nil
}

// repairCount returns a count such as 1.5k in digits. It leaves 1.5m unchanged, because m may stand for minutes.
func repairCount(text string) string {
	digits := strings.TrimRight(text, "kmg")
	factor := map[string]uint64{"": 1, "k": 1e3, "g": 1e9}[strings.TrimPrefix(text, digits)] // 0 for m
	if whole := wholeNumber(digits, factor); whole != "" {
		return whole
	}
	return text
}
