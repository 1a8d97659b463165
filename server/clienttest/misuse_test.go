package clienttest

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/server/service/grpcapi"
)

func TestMisuseIsSafe(t *testing.T) {
	limittest.RunMisuse(t, func(t testing.TB) (headgate.Limiter, func() error) {
		c := newHost(t, time.Now, grpcapi.Config{}).client(client.Options{})
		return c.Store(), c.Close
	})
}
