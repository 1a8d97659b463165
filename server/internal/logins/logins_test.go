package logins_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/internal/logins"
)

var (
	alice = netip.MustParseAddr("192.0.2.1")
	bob   = netip.MustParseAddr("192.0.2.2")
)

func open(t *testing.T, o logins.Options) *logins.Throttle {
	t.Helper()
	made, err := logins.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

func TestTenWrongTokensRefuseAddressOnAllListeners(t *testing.T) {
	var log bytes.Buffer
	o := logins.Options{Limit: headgate.PerHour(10), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	throttle, ctx := open(t, o), context.Background()
	for i := range 10 {
		listener := []string{"admin", "resp", "grpc", "api"}[i%4]
		if d := throttle.Denied(ctx, listener, logins.Guess, alice); d != 0 {
			t.Fatalf("after %d wrong tokens: refused for %v, want not at all", i, d)
		}
		if d := throttle.Failed(ctx, listener, logins.Guess, alice); d != 0 {
			t.Fatalf("wrong token %d: refused for %v, want not at all", i, d)
		}
	}
	if d := throttle.Denied(ctx, "resp", logins.Guess, alice); d < time.Minute || d > time.Hour {
		t.Errorf("after 10 wrong tokens: refused for %v, want for some minutes", d)
	}
	if d := throttle.Failed(ctx, "resp", logins.Guess, alice); d < time.Minute {
		t.Errorf("one more: refused for %v, want for some minutes", d)
	}
	for who, d := range map[string]time.Duration{
		"another address":               throttle.Denied(ctx, "resp", logins.Guess, bob),
		"a token that was revoked":      throttle.Denied(ctx, "admin", logins.Revoked, alice),
		"another network of IPv6":       throttle.Denied(ctx, "admin", logins.Guess, netip.MustParseAddr("2001:db8::1")),
		"somebody behind a Unix socket": throttle.Denied(ctx, "admin", logins.Guess, netip.Addr{}),
	} {
		if d != 0 {
			t.Errorf("%s: refused for %v, want not at all", who, d)
		}
	}
	report := throttle.Report()
	failed, recent := report.Count, report.Recent
	if failed != 12 || len(recent) != 12 || recent[1].Listener != "resp" || recent[1].From != "192.0.2.1" || !recent[11].Denied {
		t.Errorf("got %d failures, %+v; want 12, the last refused", failed, recent)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), `msg="wrong token" listener=admin from=192.0.2.1`) {
		t.Errorf("got %d lines of log, want one a second:\n%s", lines, log.String())
	}
}

func TestOneNetworkOfIPv6IsOneAddress(t *testing.T) {
	throttle, ctx := open(t, logins.Options{Limit: headgate.PerHour(2)}), context.Background()
	for _, from := range []string{"2001:db8::1", "2001:db8::2"} {
		throttle.Failed(ctx, "api", logins.Guess, netip.MustParseAddr(from))
	}
	if d := throttle.Denied(ctx, "api", logins.Guess, netip.MustParseAddr("2001:db8::3")); d == 0 {
		t.Error("a third address of the network is not refused")
	}
}

func TestRefusedAddressIsAcceptedAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle, ctx := open(t, logins.Options{}), context.Background()
		for range 10 {
			throttle.Failed(ctx, "api", logins.Guess, alice)
		}
		d := throttle.Denied(ctx, "api", logins.Guess, alice)
		if d == 0 || d > time.Minute {
			t.Fatalf("refused for %v, want up to a minute", d)
		}
		time.Sleep(d)
		if d := throttle.Denied(ctx, "api", logins.Guess, alice); d != 0 {
			t.Errorf("after that: still refused for %v", d)
		}
		time.Sleep(2 * time.Minute)
		for range 10 {
			if d := throttle.Denied(ctx, "api", logins.Guess, alice); d != 0 {
				t.Errorf("after two minutes: refused for %v", d)
			}
			throttle.Failed(ctx, "api", logins.Guess, alice)
		}
	})
}
