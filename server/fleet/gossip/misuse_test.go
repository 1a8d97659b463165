package gossip

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/server/fleet"
)

func TestMisuseIsSafe(t *testing.T) {
	limittest.RunMisuse(t, func(t testing.TB) (headgate.Limiter, func() error) {
		l, err := New(fleet.LedgerOptions{}, Options{
			Name: "a", BindAddr: "127.0.0.1:0", Key: []byte("sixteen bytes or"), OnEvent: func(Event) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		return l, l.Close
	})
}
