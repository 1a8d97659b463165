package transport

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/headgate/headgate"
)

// A limitInfo has the limits that a response reports.
type limitInfo struct {
	refused bool          // the status is 429 or 503
	pause   time.Duration // how long to send no requests
	windows []window
}

// A window is the state of a quota of the server.
type window struct {
	name      string
	quota     int64 // the units after the reset; 0 if unknown
	remaining int64 // the units until the reset
	reset     time.Time
	span      time.Duration // the length of the windows after the reset
}

const (
	maxWindows = 8
	maxField   = 4 << 10 // bytes
	maxName    = 128     // bytes
	// defaultPause is the pause after status 429 if the response does not say when to retry.
	defaultPause = time.Second
	// minSpan is the minimum length of a window, and the length if the response does not report it.
	minSpan = time.Second
)

// readLimits reads the limits that a response reports. It ignores invalid fields, and limits all times to
// Options.MaxPause.
func (t *Transport) readLimits(r *http.Response, now time.Time) *limitInfo {
	refused := r.StatusCode == http.StatusTooManyRequests || r.StatusCode == http.StatusServiceUnavailable
	info := &limitInfo{refused: refused}
	date, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil {
		date = now
	}
	info.windows = t.readDraft(r.Header, now)
	if info.windows == nil {
		info.windows = t.readEarlierDraft(r.Header, now)
	}
	if info.windows == nil {
		info.windows = t.readLegacy(r.Header, now, date)
	}
	if !info.refused {
		return info
	}
	if after, ok := parseRetryAfter(r.Header.Get("Retry-After"), date); ok {
		info.pause = t.clampPause(after)
		return info
	}
	for _, w := range info.windows {
		if w.remaining == 0 {
			info.pause = max(info.pause, w.reset.Sub(now))
		}
	}
	if info.pause == 0 && r.StatusCode == http.StatusTooManyRequests {
		info.pause = defaultPause
	}
	return info
}

// clampPause limits d to the range from 0 to Options.MaxPause.
func (t *Transport) clampPause(d time.Duration) time.Duration {
	return min(max(d, 0), t.options.MaxPause)
}

// seconds returns n seconds as a Duration, at least 0 and at most headgate.MaxPeriod.
func seconds(n int64) time.Duration {
	if n > int64(headgate.MaxPeriod/time.Second) {
		return headgate.MaxPeriod
	}
	return time.Duration(max(n, 0)) * time.Second
}

// parseRetryAfter parses Retry-After: a number of seconds, or a date by the server's clock. date is the server's time.
func parseRetryAfter(text string, date time.Time) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > 64 {
		return 0, false
	}
	if strings.Trim(text, "0123456789") == "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil { // too many digits mean a very long time
			n = 1 << 62
		}
		return seconds(n), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return max(at.Sub(date), 0), true
}

// readDraft parses RateLimit and RateLimit-Policy: draft-ietf-httpapi-ratelimit-headers-11.
func (t *Transport) readDraft(h http.Header, now time.Time) []window {
	list := readList(h["Ratelimit"])
	if list == nil {
		return nil
	}
	policies := readList(h["Ratelimit-Policy"])
	var windows []window
	for _, member := range list {
		item, name, ok := itemName(member)
		remaining, hasRemaining := countParam(item.Params, "r")
		if !ok || !hasRemaining || len(name) > maxName || len(windows) == maxWindows {
			continue
		}
		w := window{name: name, remaining: remaining, span: minSpan}
		secondsToReset, hasReset := countParam(item.Params, "t")
		for _, policy := range policies {
			p, policyName, ok := itemName(policy)
			if !ok || policyName != name {
				continue
			}
			w.quota, _ = countParam(p.Params, "q")
			if length, ok := countParam(p.Params, "w"); ok {
				w.span = max(t.clampPause(seconds(length)), minSpan)
				if !hasReset {
					secondsToReset, hasReset = length, true // the reset is at most one window away
				}
			}
			break
		}
		if !hasReset {
			continue // it is unknown how long to wait
		}
		w.reset = now.Add(t.clampPause(seconds(secondsToReset)))
		windows = append(windows, w)
	}
	return windows
}

// readEarlierDraft parses RateLimit of drafts up to 7: limit=100, remaining=50, reset=30.
func (t *Transport) readEarlierDraft(h http.Header, now time.Time) []window {
	lines := h["Ratelimit"]
	if !isReadable(lines) {
		return nil
	}
	d, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return nil
	}
	value := func(name string) (int64, bool) {
		member, _ := d.Get(name)
		item, _ := member.(httpsfv.Item)
		n, ok := item.Value.(int64)
		return n, ok && n >= 0
	}
	remaining, hasRemaining := value("remaining")
	reset, hasReset := value("reset")
	if !hasRemaining || !hasReset {
		return nil
	}
	quota, _ := value("limit")
	return []window{{
		name: "RateLimit", quota: quota, remaining: remaining, reset: now.Add(t.clampPause(seconds(reset))),
		span: minSpan,
	}}
}

// isReadable reports whether a field is present and not too long.
func isReadable(lines []string) bool {
	size := 0
	for _, line := range lines {
		size += len(line)
	}
	return size > 0 && size <= maxField
}

func readList(lines []string) httpsfv.List {
	if !isReadable(lines) {
		return nil
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil // RFC 9651: an invalid field is ignored
	}
	return list
}

// itemName returns a member of a list as an item, and the item's value, which is the name of a policy. ok is false if
// the member is not an item with a name.
func itemName(m httpsfv.Member) (item httpsfv.Item, name string, ok bool) {
	item, ok = m.(httpsfv.Item)
	if !ok {
		return item, "", false
	}
	name, ok = item.Value.(string)
	return item, name, ok
}

// countParam returns the value of a parameter. ok is false if it is not a whole number of at least 0.
func countParam(p *httpsfv.Params, name string) (n int64, ok bool) {
	if p == nil {
		return 0, false
	}
	value, _ := p.Get(name)
	n, ok = value.(int64)
	return n, ok && n >= 0
}

// legacyPrefixes are prefixes of older fields: servers sent X-RateLimit-Limit, X-RateLimit-Remaining and
// X-RateLimit-Reset, or the like, before the RateLimit field was specified.
var legacyPrefixes = []string{"X-Ratelimit-", "Ratelimit-", "X-Rate-Limit-"}

// readLegacy parses the fields with the first of legacyPrefixes that has valid Remaining and Reset fields.
func (t *Transport) readLegacy(h http.Header, now, date time.Time) []window {
	for _, prefix := range legacyPrefixes {
		remaining, ok := parseCount(h.Get(prefix + "Remaining"))
		if !ok {
			continue
		}
		untilReset, ok := parseReset(h.Get(prefix+"Reset"), date)
		if !ok {
			continue
		}
		quota, _ := parseCount(h.Get(prefix + "Limit"))
		return []window{{
			name: prefix, quota: quota, remaining: remaining, reset: now.Add(t.clampPause(untilReset)), span: minSpan,
		}}
	}
	return nil
}

// parseCount parses the whole number before a comma or semicolon. Some servers append their windows, as in
// "100, 100;w=60".
func parseCount(text string) (int64, bool) {
	if len(text) > maxField {
		return 0, false
	}
	text, _, _ = strings.Cut(text, ",")
	text, _, _ = strings.Cut(text, ";")
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n, err == nil && n >= 0
}

// A reset of at least minEpochMillis is in milliseconds since 1970, one of at least minEpochSeconds in seconds since
// 1970, and a smaller one is a number of seconds to wait.
const (
	minEpochSeconds = 1_000_000_000
	minEpochMillis  = 1_000_000_000_000
)

// parseReset returns the time until a reset. Servers send it as seconds to wait, or as a time by their clock. date is
// the server's time.
func parseReset(text string, date time.Time) (time.Duration, bool) {
	if len(text) > 64 {
		return 0, false
	}
	text = strings.TrimSpace(text)
	if n, ok := parseCount(text); ok {
		switch {
		case n >= minEpochMillis:
			return max(time.UnixMilli(n).Sub(date), 0), true
		case n >= minEpochSeconds:
			return max(time.Unix(n, 0).Sub(date), 0), true
		default:
			return seconds(n), true
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(f) || f < 0:
		return 0, false
	case f >= minEpochSeconds && f < minEpochMillis:
		return max(time.UnixMilli(int64(f*1000)).Sub(date), 0), true
	case f < minEpochSeconds:
		return time.Duration(f * float64(time.Second)), true
	default:
		return 0, false
	}
}
