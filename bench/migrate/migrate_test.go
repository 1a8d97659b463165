// Package migrate has the code of docs/migrate.md: the same task with another library and with Headgate.
package migrate

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	hgstore "github.com/headgate/headgate/memstore"
)

func rateBefore(ctx context.Context, work func()) error {
	// before: x/time/rate
	limit := rate.NewLimiter(10, 20)
	if err := limit.Wait(ctx); err != nil {
		return err
	}
	work()
	// end
	return nil
}

func rateAfter(ctx context.Context, work func()) error {
	// after: x/time/rate
	store := hgstore.MustNew(hgstore.Options{})
	limit := headgate.MustBind(store, headgate.MustParseLimit("10/s burst 20"))
	if err := limit.Wait(ctx, "work"); err != nil {
		return err
	}
	work()
	// end
	return store.Close()
}

func throttledBefore(user string) (bool, time.Duration, error) {
	// before: throttled
	store, err := memstore.NewCtx(65536)
	if err != nil {
		return false, 0, err
	}
	limit, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerMin(20), MaxBurst: 4,
	})
	if err != nil {
		return false, 0, err
	}
	limited, result, err := limit.RateLimitCtx(context.Background(), user, 1)
	// end
	return !limited, result.RetryAfter, err
}

func throttledAfter(user string) (bool, time.Duration, error) {
	// after: throttled
	store, err := hgstore.New(hgstore.Options{})
	if err != nil {
		return false, 0, err
	}
	limit := headgate.MustBind(store, headgate.MustParseLimit("20/m gcra burst 5"))
	d, err := limit.Take(context.Background(), user, 1)
	// end
	store.Close()
	return d.Allowed, d.RetryAfter, err
}

//nolint:staticcheck // deprecated, and the code that users have today
func httprateBefore(handler http.Handler) http.Handler {
	// before: httprate
	limited := httprate.LimitBy(2, time.Minute, httprate.KeyByIP)
	return limited(handler)
	// end
}

func httprateAfter(handler http.Handler, store headgate.Limiter) http.Handler {
	// after: httprate
	limited := httplimit.By(store, func(r *http.Request) (string, headgate.Limit) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		return host, headgate.PerMinute(2)
	})
	return limited(handler)
	// end
}

func ululeBefore(ctx context.Context, user string) (bool, error) {
	// before: ulule/limiter
	perHour, err := limiter.NewRateFromFormatted("1000-H")
	if err != nil {
		return false, err
	}
	limit := limiter.New(memory.NewStore(), perHour)
	result, err := limit.Get(ctx, user)
	// end
	return !result.Reached, err
}

func ululeAfter(ctx context.Context, user string) (bool, error) {
	// after: ulule/limiter
	store := hgstore.MustNew(hgstore.Options{})
	perHour, err := headgate.ParseLimit("1000/h fixed-window")
	if err != nil {
		return false, err
	}
	limit := headgate.MustBind(store, perHour)
	d, err := limit.Take(ctx, user, 1)
	// end
	store.Close()
	return d.Allowed, err
}

func TestBothSidesDoTheSame(t *testing.T) {
	ctx := t.Context()
	for name, wait := range map[string]func(context.Context, func()) error{"before": rateBefore, "after": rateAfter} {
		ran := false
		if err := wait(ctx, func() { ran = true }); err != nil || !ran {
			t.Errorf("x/time/rate, %s: ran %t, %v, want it to run", name, ran, err)
		}
	}
	for name, take := range map[string]func(string) (bool, time.Duration, error){"before": throttledBefore, "after": throttledAfter} {
		if allowed, _, err := take("alice"); err != nil || !allowed {
			t.Errorf("throttled, %s: got %t, %v, want allowed", name, allowed, err)
		}
	}
	for name, get := range map[string]func(context.Context, string) (bool, error){"before": ululeBefore, "after": ululeAfter} {
		if allowed, err := get(ctx, "alice"); err != nil || !allowed {
			t.Errorf("ulule, %s: got %t, %v, want allowed", name, allowed, err)
		}
	}
	store := hgstore.MustNew(hgstore.Options{})
	defer store.Close()
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, h := range map[string]http.Handler{"before": httprateBefore(ok), "after": httprateAfter(ok, store)} {
		var codes []int
		for range 3 {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			codes = append(codes, w.Code)
		}
		if fmt.Sprint(codes) != "[200 200 429]" {
			t.Errorf("httprate, %s: got %v, want 200 twice and 429", name, codes)
		}
	}
}

// The page shows the code above, line by line.
func TestPageShowsThisCode(t *testing.T) {
	page, err := os.ReadFile("../../docs/migrate.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, file := range []string{"migrate_test.go", "redis_test.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Split(string(source), "\t// end\n") {
			_, code, found := strings.Cut(part, "\t// before: ")
			if !found {
				_, code, found = strings.Cut(part, "\t// after: ")
			}
			if !found {
				continue
			}
			name, code, _ := strings.Cut(code, "\n")
			code = strings.ReplaceAll(strings.TrimPrefix(code, "\t"), "\n\t", "\n")
			if !strings.Contains(string(page), code) {
				t.Errorf("docs/migrate.md does not show this code of %s:\n%s", name, code)
			}
			shown++
		}
	}
	if shown != 10 {
		t.Errorf("compared %d pieces of code, want 10", shown)
	}
}
