package service_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/service"
)

func newTokens(t *testing.T, log *slog.Logger) *service.Tokens {
	t.Helper()
	token, err := service.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := service.NewToken("the-administrators-own")
	if err != nil {
		t.Fatal(err)
	}
	logins, err := service.NewLogins(service.LoginOptions{Limit: headgate.PerHour(10), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = logins.Close() })
	return &service.Tokens{Listener: "api", Token: token, Admin: admin, Logins: logins}
}

func TestTokensOfAuthorizationHeaders(t *testing.T) {
	tokens := newTokens(t, slog.New(slog.DiscardHandler))
	for header, want := range map[string]bool{
		"Bearer " + secret: true, "bearer " + secret: true, "Bearer  " + secret + " ": true, "Bearer the-administrators-own": true,
		"": false, "Bearer": false, "Bearer ": false, secret: false, "Basic " + secret: false, "Bearer " + secret + "x": false,
	} {
		err := tokens.CheckBearer(context.Background(), header, netip.Addr{}, nil)
		if (err == nil) != want || err != nil && !errors.Is(err, service.ErrWrongToken) {
			t.Errorf("%q: got %v, want valid %t", header, err, want)
		}
	}
	if failed := tokens.Logins.Report().Count; failed != 1 {
		t.Errorf("got %d wrong tokens, want 1: others show none", failed)
	}
	if err := (&service.Tokens{Token: tokens.Token}).Validate(); err == nil {
		t.Error("a token without Logins: got no error")
	}
}

func TestThrottledAddressLearnsNothing(t *testing.T) {
	tokens, ctx := newTokens(t, slog.New(slog.DiscardHandler)), context.Background()
	from := netip.MustParseAddr("192.0.2.1")
	for range 10 {
		if err := tokens.Check(ctx, "a-wrong-one", from, nil); !errors.Is(err, service.ErrWrongToken) {
			t.Fatalf("got %v, want that it is wrong", err)
		}
	}
	var tooMany *service.TooManyLoginsError
	for _, shown := range []string{"a-wrong-one", secret, "the-administrators-own"} {
		if err := tokens.Check(ctx, shown, from, nil); !errors.As(err, &tooMany) || tooMany.Seconds() < 1 {
			t.Errorf("%s: got %v, want too many", shown, err)
		}
	}
	if err := tokens.Check(ctx, secret, netip.MustParseAddr("192.0.2.2"), nil); err != nil {
		t.Errorf("another address: got %v", err)
	}
}

// Callers behind one address, such as that of a NAT, must not lose a connection that works because of a neighbour's
// mistake.
func TestProvenConnectionStaysUsable(t *testing.T) {
	var log bytes.Buffer
	tokens := newTokens(t, slog.New(slog.NewTextHandler(&log, nil)))
	_, addr, _ := start(t, service.HTTPConfig{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		err := tokens.CheckBearer(ctx, r.Header.Get("Authorization"), service.ParseAddr(r.RemoteAddr), service.AuthenticatedFlag(ctx))
		var tooMany *service.TooManyLoginsError
		switch {
		case errors.As(err, &tooMany):
			w.WriteHeader(http.StatusTooManyRequests)
		case err != nil:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})})
	caller := func() func(token string) int {
		client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
		t.Cleanup(client.CloseIdleConnections)
		return func(token string) int {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			got, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, got.Body)
			_ = got.Body.Close()
			return got.StatusCode
		}
	}
	knows, guesses := caller(), caller()
	if got := knows(secret); got != 200 {
		t.Fatalf("the token: got %d", got)
	}
	for range 10 {
		if got := guesses("a-wrong-one"); got != 401 {
			t.Fatalf("a guess: got %d", got)
		}
	}
	for what, pair := range map[string][2]int{
		"the token on the connection of one who guesses": {guesses(secret), 429},
		"the token on a new connection":                  {caller()(secret), 429},
		"the token on a connection that has shown it":    {knows(secret), 200},
		"another's token on that connection":             {knows("the-administrators-own"), 429},
		"the token on that connection, after that":       {knows(secret), 200},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %d, want %d", what, pair[0], pair[1])
		}
	}
	if !strings.Contains(log.String(), `msg="wrong token" listener=api from=127.0.0.1`) {
		t.Errorf("got %q in the log", log.String())
	}
}
