package headgate_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/headgate/headgate"
)

func ExampleParseLimit() {
	for _, text := range []string{"10/s burst 20", "1000/h sliding-window", "100/1h sliding-buckets 12", "50 concurrent ttl 30s", "10/fortnight"} {
		l, err := headgate.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(l.Algorithm, l.Count, l.Period, l.Capacity())
	}
	// Output:
	// token-bucket 10 1s 20
	// sliding-window 1000 1h0m0s 1000
	// sliding-buckets 100 1h0m0s 100
	// concurrency 50 0s 50
	// invalid limit: Period "fortnight": want a unit (us, ms, s, m, h, d) or a time such as 30s, 1h30m, 7d
}

func ExampleParseLimit_spellings() {
	for _, text := range []string{"10 per second", "100 per 15 minutes", "0.5/s", "1k/min", "10/secnd"} {
		limit, err := headgate.ParseLimit(text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(limit)
	}
	// Output:
	// 10/s
	// 100/15m
	// 1/2s
	// 1000/m
	// invalid limit: Period "secnd": want a unit (us, ms, s, m, h, d) or a time such as 30s, 1h30m, 7d; did you mean "10/s"?
}

// A Limit can be a flag.
func ExampleLimit_Set() {
	limit := headgate.PerSecond(10)
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.Var(&limit, "limit", "requests of a client")
	err := flags.Parse([]string{"-limit", "5 per minute"})
	fmt.Println(limit, err)
	// Output: 5/m <nil>
}

func ExampleLimit_LogValue() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	log.Info("limit changed", "limit", headgate.PerMinute(5))
	// Output: level=INFO msg="limit changed" limit=5/m
}

func ExamplePerDay() {
	fmt.Println(headgate.PerDay(10_000))
	// Output: 10000/d
}

var perUser = headgate.MustParseLimit("1000/h sliding-window")

func ExampleMustParseLimit() {
	fmt.Println(perUser.Count, perUser.Period)
	// Output: 1000 1h0m0s
}

func ExamplePer() {
	fmt.Println(headgate.Per(100, 15*time.Minute), headgate.PerSecond(10), headgate.PerMinute(300), headgate.PerHour(1000))
	// Output: 100/15m 10/s 300/m 1000/h
}

func ExamplePerSecond() {
	limit := headgate.PerSecond(10)
	limit.Burst = 50
	fmt.Println(limit)
	// Output: 10/s burst 50
}

func ExamplePerMinute() {
	fmt.Println(headgate.PerMinute(300))
	// Output: 300/m
}

func ExamplePerHour() {
	limit := headgate.PerHour(1000)
	limit.Algorithm = headgate.FixedWindow
	limit.Staggered = true
	fmt.Println(limit)
	// Output: 1000/h fixed-window staggered
}

func ExampleLimit() {
	limit := headgate.Limit{Algorithm: headgate.GCRA, Count: 5, Period: time.Minute, Burst: 15}
	fmt.Println(limit, limit.Validate())
	// Output: 5/m gcra burst 15 <nil>
}

func ExampleLimit_Capacity() {
	fmt.Println(headgate.PerSecond(10).Capacity(), headgate.MustParseLimit("10/s burst 3").Capacity())
	// Output: 10 3
}

func ExampleLimit_Validate() {
	fmt.Println(headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Second, Burst: 20}.Validate())
	// Output: invalid limit: Burst 20: want none: only token-bucket, leaky-bucket and gcra have one, not fixed-window
}

func ExampleLimit_String() {
	fmt.Println(headgate.Limit{Count: 10, Period: 90 * time.Second, Burst: 20}.String())
	// Output: 10/90s burst 20
}

func ExampleLimit_MarshalText() {
	text, err := json.Marshal(map[string]headgate.Limit{"search": headgate.PerSecond(10)})
	fmt.Println(string(text), err)
	// Output: {"search":"10/s"} <nil>
}

func ExampleLimit_UnmarshalText() {
	var limits []headgate.Limit
	err := json.Unmarshal([]byte(`["10/s burst 20", "1000/h sliding-window"]`), &limits)
	fmt.Println(limits, err)
	// Output: [10/s burst 20 1000/h sliding-window] <nil>
}

func ExampleAlgorithm() {
	limit := headgate.PerHour(100)
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingLog, headgate.SlidingBuckets} {
		limit.Algorithm = a
		fmt.Println(a, "|", limit)
	}
	// Output:
	// token-bucket | 100/h
	// sliding-log | 100/h sliding-log
	// sliding-buckets | 100/h sliding-buckets
}

func ExampleAlgorithm_String() {
	fmt.Println(headgate.SlidingWindow.String())
	// Output: sliding-window
}

func ExampleParseAlgorithm() {
	a, err := headgate.ParseAlgorithm("gcra")
	fmt.Println(a == headgate.GCRA, err)
	// Output: true <nil>
}
