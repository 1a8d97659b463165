package headgate

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// units are the units of time in a period, largest first.
var units = []struct {
	name string
	size time.Duration
}{
	{"d", day},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
}

// longUnits maps the other names of the units to the short ones.
var longUnits = map[string]string{
	"day": "d", "days": "d", "hour": "h", "hours": "h", "hr": "h", "hrs": "h",
	"min": "m", "mins": "m", "minute": "m", "minutes": "m", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
	"millisecond": "ms", "milliseconds": "ms", "microsecond": "us", "microseconds": "us", "µs": "us", "μs": "us",
}

// ParseLimit parses a limit: a count and a period, then in any order an algorithm and its settings.
//
//	10/s
//	100/30s burst 20
//	1000/h sliding-window
//	5/s leaky-bucket burst 20
//	100/1h sliding-buckets 12
//	1000/h fixed-window staggered
//	50 concurrent ttl 30s
//
// A period is a unit (us, ms, s, m, h, d, or its name in full), or numbers with units (30s, 1h30m, 7d). Counts may
// have a suffix k, M or G, and the first count may have a fraction. ParseLimit also reads the common spellings on the
// left; for those, String returns the short form on the right:
//
//	10 per second        10/s
//	100 per 15 minutes   100/15m
//	0.5/s                1/2s
//	2.5/s                5/2s burst 3
//	1.5k/min             1500/m
//
// A count with a fraction is converted to a whole count in a longer period. Its default burst is the count rounded up.
// Algorithms without a burst refuse fractions, since their windows would be longer than the period in the text.
//
// The error is an *InputError. It suggests the limit that was probably meant.
func ParseLimit(s string) (Limit, error) {
	const maxBytes = 256
	if len(s) > maxBytes {
		return Limit{}, badLimit("text", quote(s), "at most "+strconv.Itoa(maxBytes)+" bytes")
	}
	l, err := parseLimit(s)
	if err != nil {
		return Limit{}, withSuggestion(err, s)
	}
	return l, nil
}

// parseLimit is ParseLimit without suggestions.
func parseLimit(s string) (Limit, error) {
	words := strings.Fields(s)
	if slices.ContainsFunc(words, func(w string) bool { return w[0] == '/' || w[len(w)-1] == '/' }) {
		words = strings.Fields(slashSpaces.Replace(strings.Join(words, " "))) // "10 / s"
	}
	p := limitParser{text: s, words: words}
	l, err := p.parse()
	if err != nil {
		return Limit{}, err
	}
	return l, l.Validate()
}

// MustParseLimit is ParseLimit for limits known to be valid, such as constants and those in tests. It panics on an
// error.
func MustParseLimit(s string) Limit {
	l, err := ParseLimit(s)
	if err != nil {
		panic(err)
	}
	return l
}

type limitParser struct {
	text         string
	words        []string // not parsed yet
	seen         [settingWords]bool
	defaultBurst int64 // of a count with a fraction; 0 for a whole number
}

// The indexes of limitParser.seen: the settings that may follow the count and period, each at most once.
const (
	algorithmWord = iota
	burstWord
	ttlWord
	staggeredWord
	settingWords // their number
)

func (p *limitParser) parse() (l Limit, err error) {
	first, ok := p.next()
	if !ok {
		return l, badLimit("text", `""`, `a limit such as "10/s" or "50 concurrent"`)
	}
	count, period, hasPeriod := strings.Cut(first, "/")
	if !hasPeriod && len(p.words) > 1 && p.words[0] == "per" {
		p.next()
		period, _ = p.next()
		hasPeriod = true
	}
	if isNumber(period) && len(p.words) > 0 {
		if _, ok := unitSize(p.words[0]); ok {
			unit, _ := p.next()
			period += unit // "15 minutes"
		}
	}
	if !hasPeriod {
		if l.Count, err = parseCount("Count", count); err != nil {
			return l, err
		}
		if word, ok := p.next(); !ok || word != "concurrent" {
			return l, badLimit("text", quote(p.text), `a period as in "`+count+`/s", or "`+count+` concurrent"`)
		}
		l.Algorithm, p.seen[algorithmWord] = Concurrency, true
	} else if l.Period, err = parsePeriod("Period", period); err == nil {
		err = p.setRate(&l, count)
	}
	if err != nil {
		return l, err
	}
	for {
		word, ok := p.next()
		if !ok {
			return l, p.setDefaultBurst(&l, count)
		}
		if err := p.parseSetting(&l, word); err != nil {
			return l, err
		}
	}
}

// parseSetting parses one setting, whose first word has been read already.
func (p *limitParser) parseSetting(l *Limit, word string) (err error) {
	switch word {
	case "burst":
		if err := p.markSeen(burstWord, word); err != nil {
			return err
		}
		value, _ := p.next()
		l.Burst, err = parseCount("Burst", value)
		return err
	case "ttl":
		if err := p.markSeen(ttlWord, word); err != nil {
			return err
		}
		value, _ := p.next()
		l.TTL, err = parsePeriod("TTL", value)
		return err
	case "staggered":
		l.Staggered = true
		return p.markSeen(staggeredWord, word)
	default:
		return p.parseAlgorithm(l, word)
	}
}

// parseAlgorithm parses an algorithm and, for sliding-buckets, the number of buckets.
func (p *limitParser) parseAlgorithm(l *Limit, word string) error {
	a, err := ParseAlgorithm(word)
	if err != nil || a == Concurrency {
		if len(p.words) > 0 {
			if _, err := ParseAlgorithm(word + "-" + p.words[0]); err == nil {
				return badLimit("text", quote(p.text), "the algorithm as one word")
			}
		}
		if isConcurrent(word) {
			return badLimit("text", quote(p.text), "a period or "+quote("concurrent")+", not both")
		}
		return badLimit("text", quote(word), `"burst N", "ttl TIME", "staggered" or an algorithm, `+algorithmList())
	}
	l.Algorithm = a
	if err := p.markSeen(algorithmWord, "an algorithm"); err != nil {
		return err
	}
	if a.has(bucketsSetting) && len(p.words) > 0 && p.words[0][0] >= '0' && p.words[0][0] <= '9' {
		value, _ := p.next()
		n, err := parseCount("Buckets", value)
		if err != nil {
			return err
		}
		if n > MaxBuckets {
			return badLimit("Buckets", value, "2 to "+strconv.Itoa(MaxBuckets))
		}
		l.Buckets = int(n)
	}
	return nil
}

// next removes and returns the next word.
func (p *limitParser) next() (string, bool) {
	if len(p.words) == 0 {
		return "", false
	}
	word := p.words[0]
	p.words = p.words[1:]
	return word, true
}

// markSeen records that the text has the setting. It returns an error if the text has it twice.
func (p *limitParser) markSeen(setting int, name string) error {
	if p.seen[setting] {
		return badLimit("text", quote(p.text), name+" only once")
	}
	p.seen[setting] = true
	return nil
}

// slashSpaces removes the spaces around a slash.
var slashSpaces = strings.NewReplacer(" / ", "/", " /", "/", "/ ", "/")

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// setRate sets the count. If the count has a fraction, setRate multiplies count and period until the count is whole:
// 0.5 per second is 1 per 2 seconds.
func (p *limitParser) setRate(l *Limit, count string) error {
	integer, fraction, _ := strings.Cut(count, ".")
	digits := strings.TrimRight(fraction, "kKMG")
	suffix := fraction[len(digits):]
	if digits = strings.TrimRight(digits, "0"); digits == "" { // a whole number, such as 2 or 2.0
		n, err := parseCount("Count", integer+suffix)
		l.Count = n
		return err
	}
	const maxDigits = 6
	n, err := parseCount("Count", integer+digits+suffix)
	if err != nil || len(digits) > maxDigits || !isNumber(integer) {
		return badLimit("Count", quote(count), "a number from 0.000001 to "+strconv.FormatInt(MaxCount, 10))
	}
	denominator := int64(math.Pow10(len(digits)))
	divisor := gcd(n, denominator)
	if l.Period > MaxPeriod/time.Duration(denominator/divisor) {
		return badLimit("Count", quote(count), "a whole number: with a fraction the period is too long")
	}
	l.Count = n / divisor
	l.Period *= time.Duration(denominator / divisor)
	if denominator > divisor {
		p.defaultBurst = (n + denominator - 1) / denominator
	}
	return nil
}

// setDefaultBurst sets the burst of a limit whose count has a fraction, unless the text has a burst. Without this,
// 2.5/s, which is stored as 5/2s, would have a burst of 5 instead of 3.
func (p *limitParser) setDefaultBurst(l *Limit, count string) error {
	switch {
	case p.defaultBurst == 0:
	case !l.Algorithm.has(burstSetting):
		return badLimit("Count", quote(count), "a whole number for "+l.Algorithm.String()+didYouMean(l.String()))
	case l.Burst == 0 && p.defaultBurst < l.Count:
		l.Burst = p.defaultBurst
	}
	return nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// suffixFactors maps the suffixes of a count to their factors.
var suffixFactors = map[byte]uint64{'k': 1e3, 'K': 1e3, 'M': 1e6, 'G': 1e9}

// parseCount parses decimal digits and an optional suffix. It refuses signs, fractions and exponents.
func parseCount(field, s string) (int64, error) {
	digits, factor := s, uint64(1)
	if s != "" && suffixFactors[s[len(s)-1]] != 0 {
		digits, factor = s[:len(s)-1], suffixFactors[s[len(s)-1]]
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n == 0 || n > MaxCount/factor {
		return 0, badLimit(field, quote(s), "a whole number from 1 to "+strconv.FormatInt(MaxCount, 10))
	}
	return int64(n * factor), nil
}

func parsePeriod(field, s string) (time.Duration, error) {
	invalid := func() (time.Duration, error) {
		return 0, badLimit(field, quote(s), "a unit (us, ms, s, m, h, d) or a time such as 30s, 1h30m, 7d"+explainUnit(s))
	}
	if size, ok := unitSize(s); ok {
		return size, nil
	}
	var total time.Duration
	for rest := s; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.ParseUint(rest[:digits], 10, 63)
		if err != nil {
			return invalid()
		}
		rest = rest[digits:]
		name := rest
		if next := strings.IndexAny(rest, "0123456789"); next >= 0 {
			name = rest[:next]
		}
		size, ok := unitSize(name)
		if !ok || n > uint64(math.MaxInt64/size) || time.Duration(n)*size > math.MaxInt64-total {
			return invalid()
		}
		total += time.Duration(n) * size
		rest = rest[len(name):]
	}
	if total == 0 {
		return invalid()
	}
	return total, nil
}

func unitSize(name string) (time.Duration, bool) {
	name = strings.ToLower(name)
	if short, ok := longUnits[name]; ok {
		name = short
	}
	for _, u := range units {
		if u.name == name {
			return u.size, true
		}
	}
	return 0, false
}
