package redisstore

import (
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/limittest"
)

// conforms runs the conformance suite on a server or several.
func conforms(t *testing.T, url string, o limittest.Options) {
	t.Helper()
	base := open(t, url, Options{Secret: testSecret})
	limittest.RunOptions(t, func(_ testing.TB, now func() time.Time) headgate.Limiter { return apart(base, now) }, o)
}

func TestStandaloneConforms(t *testing.T) {
	t.Parallel()
	o := limittest.Options{Steps: 60, Goroutines: 1000}
	if racing.Enabled {
		o = limittest.Options{Steps: 20, Goroutines: 50}
	}
	conforms(t, redistest.Standalone(t, redistest.Options{}).URL(), o)
}

func TestSentinelConforms(t *testing.T) {
	skipIfSlow(t)
	t.Parallel()
	conforms(t, redistest.Sentinel(t, redistest.SentinelOptions{}).URL(), fewSteps)
}

func TestClusterConforms(t *testing.T) {
	skipIfSlow(t)
	t.Parallel()
	conforms(t, redistest.Cluster(t, redistest.ClusterOptions{}).URL(), fewSteps)
}

// fewSteps is the size of the suite where only the way to the servers differs: the scripts that decide are those of
// TestStandaloneConforms.
var fewSteps = limittest.Options{Steps: 20, Goroutines: 300}

func TestSoakTopologiesConform(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("set HEADGATE_SOAK; the size is that of TestStandaloneConforms")
	}
	o := limittest.Options{Steps: 60, Goroutines: 1000}
	t.Run("Sentinel", func(t *testing.T) {
		conforms(t, redistest.Sentinel(t, redistest.SentinelOptions{}).URL(), o)
	})
	t.Run("Cluster", func(t *testing.T) {
		conforms(t, redistest.Cluster(t, redistest.ClusterOptions{}).URL(), o)
	})
}

// skipIfSlow leaves a topology to the run without the race detector: decisions there run the same code as those on one
// server.
func skipIfSlow(t *testing.T) {
	t.Helper()
	racing.Skip(t, "on one server, the same code runs")
}
