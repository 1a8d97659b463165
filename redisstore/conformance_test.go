package redisstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/limittest"
)

// conforms runs the conformance suite on a server or several.
func conforms(t *testing.T, url string) {
	t.Helper()
	base := open(t, url, Options{Secret: testSecret})
	o := limittest.Options{Steps: 60, Goroutines: 1000}
	if raceDetected {
		o = limittest.Options{Steps: 20, Goroutines: 50}
	}
	limittest.RunOptions(t, func(_ testing.TB, now func() time.Time) headgate.Limiter { return apart(base, now) }, o)
}

func TestStandaloneConforms(t *testing.T) {
	t.Parallel()
	conforms(t, redistest.Standalone(t, redistest.Options{}).URL())
}

func TestSentinelConforms(t *testing.T) {
	skipIfSlow(t)
	t.Parallel()
	conforms(t, redistest.Sentinel(t, redistest.SentinelOptions{}).URL())
}

func TestClusterConforms(t *testing.T) {
	skipIfSlow(t)
	t.Parallel()
	conforms(t, redistest.Cluster(t, redistest.ClusterOptions{}).URL())
}

// skipIfSlow leaves a topology to the run without the race detector: decisions there run the same code as those on one
// server.
func skipIfSlow(t *testing.T) {
	t.Helper()
	if raceDetected {
		t.Skip("runs without the race detector")
	}
}
