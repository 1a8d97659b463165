package tour

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/internal/terminal"
)

func TestNoisyNeighbourIsLimitedAndOthersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer closeStore(store)
		f := newFlood(store, 6*time.Second-time.Millisecond)
		if err := f.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		// noisy is there for 5.939 s: 20 at once and 59 that came back. Its senders come every 2 ms.
		for i, want := range []count{
			{allowed: 79, denied: 2970 - 79},
			{allowed: 48},
			{allowed: 30},
			{allowed: 36},
		} {
			if got := f.clients[i].total(); got != want {
				t.Errorf("%s: got %+v, want %+v", f.clients[i].name, got, want)
			}
		}
		if got := f.maxAllowed(f.clients[0]); got != 79 {
			t.Errorf("got %d units as the most that the limit lets pass, want 79", got)
		}
	})
}

func TestTheSummaryDoesNotHideThatOthersWereDenied(t *testing.T) {
	f := &flood{clients: neighbours(), duration: time.Second, elapsed: time.Second}
	if got, want := f.summary()[2], "alice, bob and carol asked 0 times and did not notice: 0 denied."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.clients[2].note(headgate.Decision{Allowed: false, RetryAfter: time.Second}, 0, f.duration)
	if got, want := f.summary()[2], "alice, bob and carol asked 1 times and met their own limits: 1 denied."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAFailingLimiterEndsTheFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		closeStore(store)
		f := newFlood(store, time.Second)
		if err := f.run(t.Context()); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("got error %v, want %v", err, headgate.ErrClosed)
		}
	})
}

func TestThePlainViewIsALineASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, out := newDemo(false)
		d.flood = 3500 * time.Millisecond
		if err := d.showNeighbour(t.Context()); err != nil {
			t.Fatal(err)
		}
		wants(t, out.String(),
			`(?m)^  passed/denied     noisy     alice       bob     carol   noisy may come back\n`+
				` +1 s    29/44\d +[89]/0 +[56]/0 +12/0   in 6\d ms\n`+
				` +2 s    10/4[89]\d .*\n`+
				` +3 s    10/4[89]\d .*\n\n`+
				`  noisy asked 1,7\d\d times in 3\.4 s: 54 passed, 1,6\d\d denied\.\n`+
				`  Its limit, 20 at once and 10 a second, lets 54 pass in that time\.$`)
	})
}

func TestTheLiveViewDrawsOverItselfAndLeavesTheTerminalAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, out := newDemo(true)
		d.flood = 2 * time.Second
		if err := d.showNeighbour(t.Context()); err != nil {
			t.Fatal(err)
		}
		frames := strings.Count(out.String(), "\x1b[5A") // a head and four clients
		if frames < 23 || frames > 25 {
			t.Errorf("got %d frames drawn over another in 2 s, want about 24", frames)
		}
		hide, show := strings.Index(out.String(), "\x1b[?25l"), strings.Index(out.String(), "\x1b[?25h")
		if hide < 0 || show < hide {
			t.Errorf("got the cursor hidden at byte %d and shown at byte %d", hide, show)
		}
		wants(t, out.String(), "  noisy +(49|50)\\d  .*\x1b\\[31m +4[89]\\d\x1b\\[0m  in \\d+ ms", "  alice +[789]  .* 0  now")
	})
}

func TestAnInterruptEndsTheLiveViewAtOnce(t *testing.T) {
	for name, live := range map[string]bool{"plain": false, "live": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				const after = 1234 * time.Millisecond
				time.AfterFunc(after, cancel)
				start := time.Now()
				var stdout strings.Builder
				if err := Run(ctx, Options{Out: &stdout, Live: live, Flood: time.Hour}); !errors.Is(err, context.Canceled) {
					t.Errorf("got error %v, want %v", err, context.Canceled)
				}
				if took := time.Since(start); took != after {
					t.Errorf("got an end after %v, want %v", took, after)
				}
				if live && !strings.HasSuffix(stdout.String(), "\x1b[?7h\x1b[?25h\r\x1b[K") {
					t.Errorf("the terminal is not as it was: got %q at the end", stdout.String()[stdout.Len()-40:])
				}
			})
		})
	}
}

func TestACellIsFilledAsFarAsRequestsPassed(t *testing.T) {
	d := &demo{Screen: &terminal.Screen{Live: true}}
	for _, tt := range []struct {
		count count
		want  string
	}{
		{count{0, 0}, "\x1b[2m╌\x1b[0m"},
		{count{3, 0}, "\x1b[32m█\x1b[0m"},
		{count{0, 3}, "\x1b[31m█\x1b[0m"},
		{count{1, 1}, "\x1b[32;41m▄\x1b[0m"},
		{count{1, 3}, "\x1b[32;41m▂\x1b[0m"},
		{count{1, 999}, "\x1b[32;41m▁\x1b[0m"}, // what little there is can be seen
		{count{999, 1}, "\x1b[32;41m▇\x1b[0m"},
	} {
		if got := d.cell(tt.count); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.count, got, tt.want)
		}
	}
}

func TestNumbersAreGroupedByThousands(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567", -1234: "-1,234", -123: "-123",
	} {
		if got := grouped(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
