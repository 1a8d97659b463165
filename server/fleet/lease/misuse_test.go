package lease

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/limittest"
)

func TestMisuseIsSafe(t *testing.T) {
	limittest.RunMisuse(t, func(t testing.TB) (headgate.Limiter, func() error) {
		l, err := New(stepstore.New(time.Now), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return l, func() error { return l.Close(context.Background()) }
	})
}
