package headgate_test

import (
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

func TestParseLimit(t *testing.T) {
	type limit = headgate.Limit
	second, hour, day := time.Second, time.Hour, 24*time.Hour
	for text, want := range map[string]limit{
		"10/s":                               {Count: 10, Period: second},
		"  10/s  ":                           {Count: 10, Period: second},
		"010/s":                              {Count: 10, Period: second},
		"10/1s":                              {Count: 10, Period: second},
		"10/second":                          {Count: 10, Period: second},
		"10/min":                             {Count: 10, Period: time.Minute},
		"10/us":                              {Count: 10, Period: time.Microsecond},
		"10/µs":                              {Count: 10, Period: time.Microsecond},
		"10/30s":                             {Count: 10, Period: 30 * second},
		"10/1h30m":                           {Count: 10, Period: 90 * time.Minute},
		"10/7d":                              {Count: 10, Period: 7 * day},
		"10/2days":                           {Count: 10, Period: 2 * day},
		"10/366d":                            {Count: 10, Period: headgate.MaxPeriod},
		"1099511627776/s":                    {Count: headgate.MaxCount, Period: second},
		"10/s burst 20":                      {Count: 10, Period: second, Burst: 20},
		"10/s\tburst\n20":                    {Count: 10, Period: second, Burst: 20},
		"10/s token-bucket burst 20":         {Count: 10, Period: second, Burst: 20},
		"10/s burst 20 gcra":                 {Algorithm: headgate.GCRA, Count: 10, Period: second, Burst: 20},
		"5/s leaky-bucket burst 20":          {Algorithm: headgate.LeakyBucket, Count: 5, Period: second, Burst: 20},
		"1000/h fixed-window":                {Algorithm: headgate.FixedWindow, Count: 1000, Period: hour},
		"1000/h staggered fixed-window":      {Algorithm: headgate.FixedWindow, Count: 1000, Period: hour, Staggered: true},
		"1000/h sliding-log":                 {Algorithm: headgate.SlidingLog, Count: 1000, Period: hour},
		"1000/h sliding-window":              {Algorithm: headgate.SlidingWindow, Count: 1000, Period: hour},
		"100/1h sliding-buckets":             {Algorithm: headgate.SlidingBuckets, Count: 100, Period: hour},
		"100/1h sliding-buckets 12":          {Algorithm: headgate.SlidingBuckets, Count: 100, Period: hour, Buckets: 12},
		"50 concurrent":                      {Algorithm: headgate.Concurrency, Count: 50},
		"50 concurrent ttl 30s":              {Algorithm: headgate.Concurrency, Count: 50, TTL: 30 * second},
		"50 concurrent ttl h":                {Algorithm: headgate.Concurrency, Count: 50, TTL: hour},
		"1/1000000us":                        {Count: 1, Period: second},
		"100/1d1h1m1s1ms1us":                 {Count: 100, Period: day + hour + time.Minute + second + time.Millisecond + time.Microsecond},
		"100/86400s fixed-window staggered ": {Algorithm: headgate.FixedWindow, Count: 100, Period: day, Staggered: true},
	} {
		got, err := headgate.ParseLimit(text)
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestParseLimitRefuses(t *testing.T) {
	for text, field := range map[string]string{
		"":                                "text",
		"   ":                             "text",
		"10":                              "text",
		"/s":                              "Count",
		"ten/s":                           "Count",
		"0/s":                             "Count",
		"-1/s":                            "Count",
		"+1/s":                            "Count",
		"1e3/s":                           "Count",
		"1_000/s":                         "Count",
		"1099511627777/s":                 "Count",
		"99999999999999999999/s":          "Count",
		"10/":                             "Period",
		"10/0s":                           "Period",
		"10/x":                            "Period",
		"10/5":                            "Period",
		"10/-1s":                          "Period",
		"10/1.5s":                         "Period",
		"10/1ns":                          "Period",
		"10/s/s":                          "Period",
		"10/367d":                         "Period",
		"10/9223372036854775807d":         "Period",
		"10/106751d106751d":               "Period",
		"10/s burst":                      "Burst",
		"10/s burst 0":                    "Burst",
		"10/s burst -1":                   "Burst",
		"10/s burst 1 burst 1":            "text",
		"10/s gcra gcra":                  "text",
		"10/s gcra token-bucket":          "text",
		"10/s fast":                       "text",
		"10/s concurrency":                "text",
		"10/s ttl 5s":                     "TTL",
		"10/s staggered":                  "Staggered",
		"10/s fixed-window burst 20":      "Burst",
		"10/s sliding-buckets 0":          "Buckets",
		"10/s sliding-buckets 1":          "Buckets",
		"10/s sliding-buckets 1001":       "Buckets",
		"10/s sliding-buckets 7":          "Buckets",
		"10/s gcra 7":                     "text",
		"10 concurrent burst 5":           "Burst",
		"10 concurrent gcra":              "text",
		"10 concurrent ttl":               "TTL",
		"10 concurrent ttl 0s":            "TTL",
		"10 concurrent ttl 1s ttl 1s":     "text",
		"10 concurrent staggered":         "Staggered",
		"70000 concurrent":                "Count",
		"70000/h sliding-log":             "Count",
		"1/366d burst 1099511627776":      "Burst",
		"10/s" + strings.Repeat(" ", 256): "text",
	} {
		l, err := headgate.ParseLimit(text)
		if err == nil || l != (headgate.Limit{}) {
			t.Errorf("%q: got %+v, %v", text, l, err)
			continue
		}
		inputError(t, err, headgate.ErrInvalidLimit, field)
	}
}

func TestLimitStringIsShortest(t *testing.T) {
	for text, want := range map[string]string{
		"10/1s":                        "10/s",
		"10/60s":                       "10/m",
		"10/90s":                       "10/90s",
		"10/24h":                       "10/d",
		"10/1500ms":                    "10/1500ms",
		"10/1000us":                    "10/ms",
		"10/s token-bucket":            "10/s",
		"10/s burst 10":                "10/s burst 10",
		"100/h staggered fixed-window": "100/h fixed-window staggered",
		"10 concurrent ttl 60s":        "10 concurrent ttl 1m",
		"100/h sliding-buckets 12":     "100/h sliding-buckets 12",
		"5/s burst 20 leaky-bucket":    "5/s leaky-bucket burst 20",
		"100/1us":                      "100/us",
		"100/1001001us fixed-window":   "100/1001001us fixed-window",
	} {
		if got := headgate.MustParseLimit(text).String(); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestLimitInJSON(t *testing.T) {
	type rule struct{ Limits []headgate.Limit }
	const text = `{"Limits":["10/s burst 20","1000/h sliding-window"]}`
	var r rule
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(r); err != nil || string(got) != text {
		t.Errorf("got %s, %v, want %s", got, err, text)
	}
	before := r.Limits[0]
	if err := r.Limits[0].UnmarshalText([]byte("oops")); err == nil || r.Limits[0] != before {
		t.Errorf("bad text: got %v, %v, want %v as before", r.Limits[0], err, before)
	}
}

func TestMustParseLimitPanics(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || err.Error() != `invalid limit: Count "x": want a whole number from 1 to 1099511627776` {
			t.Errorf("got %v", err)
		}
	}()
	headgate.MustParseLimit("x/s")
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{
		"10/s", "10/s burst 20", "1000/h sliding-window", "5/s leaky-bucket burst 20", "100/1h sliding-buckets 12",
		"1000/h fixed-window staggered", "50 concurrent ttl 30s", "1/366d gcra", "10/1h30m sliding-log", "10/µs", "10/0s",
		"10rps", "10/s concurrent", "1000-H", "10 PER SECOND", "10/s, burst 1.0k", "1e3 req / 15 min token bucket", "5 in-flight",
		"2.5/s", "10.001/s leaky-bucket", "0.000001/us", "2.5/m fixed-window",
		"99999999999999999999/s", "10/106751d106751d", "", "/", "1/1us1us", "7 concurrent ttl 1us",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := headgate.ParseLimit(text)
		if err != nil {
			if l != (headgate.Limit{}) {
				t.Fatalf("%q: limit %+v beside the error %v", text, l, err)
			}
			if _, suggested, found := strings.Cut(err.Error(), "did you mean \""); found {
				suggested = strings.TrimSuffix(suggested, "\"?")
				if _, err := headgate.ParseLimit(suggested); err != nil || suggested == text {
					t.Fatalf("%q: suggests %q, %v, want another limit", text, suggested, err)
				}
			}
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("%q: parsed, but %v", text, err)
		}
		again, err := headgate.ParseLimit(l.String())
		if err != nil || again != l {
			t.Fatalf("%q: %+v is written %q, which is read as %+v, %v", text, l, l.String(), again, err)
		}
		if l.Capacity() < 1 {
			t.Fatalf("%q: capacity %d", text, l.Capacity())
		}
	})
}

func TestParseLimitReadsWhatPeopleType(t *testing.T) {
	for text, want := range map[string]string{
		"10 per second": "10/s", "100 per 15 minutes": "100/15m", "100 per 15min burst 7": "100/15m burst 7",
		"0.5/s": "1/2s", "1.5/s": "3/2s burst 2", "0.001/s": "1/1000s", "2.50/m gcra": "5/2m gcra burst 3",
		"10.001/s": "10001/1000s burst 11", "10.5/s burst 40": "21/2s burst 40", "1.0/s": "1/s", "1.5/s burst 3": "3/2s burst 3",
		"1k/m": "1000/m", "1.5k/min": "1500/m", "2M/d": "2000000/d", "10/sec": "10/s", "10/Sec": "10/s",
		"10 / s": "10/s", "10  /  s": "10/s", "10\t/\ts": "10/s", "100/15 min": "100/15m", "100/ 15 minutes burst 5": "100/15m burst 5",
		"10/ s burst 1k": "10/s burst 1000", "3 per hour sliding-log": "3/h sliding-log",
	} {
		l, err := headgate.ParseLimit(text)
		if err != nil || l.String() != want {
			t.Errorf("%q: got %s, %v, want %s", text, l, err, want)
			continue
		}
		again, err := headgate.ParseLimit(l.String())
		if err != nil || again != l {
			t.Errorf("%q: its text %q is read as %s, %v", text, l, again, err)
		}
	}
}

func TestParseLimitSuggestsTheNearestSpelling(t *testing.T) {
	for text, want := range map[string]string{
		"10r/s": "10/s", "10rps": "10/s", "10 rps": "10/s", "10 r/s": "10/s", "10 req/s": "10/s", "10 tps": "10/s",
		"1,000/h": "1000/h", "1_000/h": "1000/h", "1e3/s": "1000/s", "1000-H": "1000/h", "5-S": "5/s", "+1/s": "1/s",
		"100 requests per minute": "100/m", "100 requests/minute": "100/m", "100 requests / 15 min": "100/15m",
		"10 PER SECOND": "10/s", "10 every second": "10/s", "10 a second": "10/s", "10 each minute": "10/m",
		"10/s, burst 20": "10/s burst 20", "10/s burst=20": "10/s burst 20", "10/s Burst 20": "10/s burst 20",
		"10/s brust 20": "10/s burst 20", "10/s burst 1.0k": "10/s burst 1000", "10/s burst 1.5k": "10/s burst 1500",
		"10/s concurrent": "10 concurrent", "10/s concurrency": "10 concurrent", "10 concurrency": "10 concurrent",
		"10 in flight": "10 concurrent", "10 at once ttl 5s": "10 concurrent ttl 5s",
		"50 Concurrent ttl 30 s": "50 concurrent ttl 30s",
		"10/s token bucket":      "10/s", "10/s tokenbucket": "10/s", "10/s GCRA": "10/s gcra",
		"10/s sliding window": "10/s sliding-window", "10/s slidingwindow": "10/s sliding-window",
		"10/s fixed_window": "10/s fixed-window", "10/secnd": "10/s", "10/15 minuts": "10/15m",
		"2.5/m fixed-window": "5/2m fixed-window",
	} {
		_, err := headgate.ParseLimit(text)
		if err == nil {
			t.Errorf("%q: got no error, want one that suggests %q", text, want)
			continue
		}
		_, suggested, _ := strings.Cut(err.Error(), "did you mean \"")
		if got := strings.TrimSuffix(suggested, "\"?"); got != want {
			t.Errorf("%q: got the suggestion %q, want %q, of %v", text, got, want, err)
		}
	}
	for text, want := range map[string]string{"10/month": `"30d"`, "10/week": `"7d"`, "1/1y": `"365d"`} {
		if _, err := headgate.ParseLimit(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %s", text, err, want)
		}
	}
	for _, text := range []string{
		"", "10", "fast", "unlimited", "inf/s", "0/s", "-1/s", "10/s burst", "10/s ttl 5s", "1.5 concurrent",
		"10/1.5s", "10/1m30", "0.5kk/s", "10/second/user", "10@s",
	} {
		if _, err := headgate.ParseLimit(text); err == nil || strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%q: got %v, want an error without a suggestion", text, err)
		}
	}
	if _, err := headgate.ParseAlgorithm("fixed_window"); err == nil || !strings.Contains(err.Error(), `did you mean "fixed-window"?`) {
		t.Errorf("got %v, want it to suggest fixed-window", err)
	}
}

func TestLimitIsAFlagAndALogValue(t *testing.T) {
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	limit := headgate.PerSecond(10)
	flags.Var(&limit, "limit", "")
	if err := flags.Parse([]string{"-limit", "5 per minute"}); err != nil || limit != headgate.PerMinute(5) {
		t.Errorf("got %s, %v, want 5/m", limit, err)
	}
	if err := flags.Parse([]string{"-limit", "fast"}); err == nil || limit != headgate.PerMinute(5) {
		t.Errorf("got %s, %v, want an error and the limit as it was", limit, err)
	}
	var text strings.Builder
	slog.New(slog.NewTextHandler(&text, nil)).Info("", "limit", limit)
	if !strings.Contains(text.String(), "limit=5/m") {
		t.Errorf("got the log line %q, want limit=5/m", text.String())
	}
}
