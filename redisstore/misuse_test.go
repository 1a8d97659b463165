package redisstore

import (
	"fmt"
	"testing"

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
