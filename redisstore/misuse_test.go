package redisstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/limittest"
)

func TestMisuseIsSafe(t *testing.T) {
	t.Parallel()
	url := redistest.Standalone(t, redistest.Options{}).URL()
	limittest.RunMisuse(t, func(t testing.TB) (headgate.Limiter, func() error) {
		s := open(t, url, Options{Secret: testSecret, Prefix: fmt.Sprint("misuse", namespaces.Add(1))})
		return s, s.Close
	})
}

// Two limits of one user are on one server, and each is kept.
func TestBindAllKeepsEveryLimit(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := apart(open(t, redistest.Standalone(t, redistest.Options{}).URL(), Options{Secret: testSecret}),
		func() time.Time { return now })
	b := headgate.MustBindAll(s, headgate.PerSecond(10), headgate.PerDay(5))
	allowed := 0
	for range 20 {
		if b.Allow("alice") {
			allowed++
		}
		now = now.Add(2 * time.Second)
	}
	if allowed != 5 {
		t.Errorf("%d of 20 requests passed in 40 s, want 5", allowed)
	}
}

func TestBindRefusesACustomAlgorithm(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Standalone(t, redistest.Options{}).URL(), Options{Secret: testSecret})
	limit := headgate.Limit{Algorithm: headgate.FirstCustom, Count: 1, Period: time.Hour}
	if _, err := headgate.Bind(s, limit); !errors.Is(err, headgate.ErrInvalidLimit) {
		t.Errorf("got %v, want %v", err, headgate.ErrInvalidLimit)
	}
}
