package algorithm_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/limittest"
)

func TestStepsConform(t *testing.T) {
	limittest.Run(t, func(_ testing.TB, now func() time.Time) headgate.Limiter { return stepstore.New(now) })
}
