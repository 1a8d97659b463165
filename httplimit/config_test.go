package httplimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/httplimit"
)

func TestConfigThatIsWrongIsRefused(t *testing.T) {
	g := newGate(t, generous, httplimit.Config{})
	for _, tt := range []struct {
		name   string
		config httplimit.Config
		want   string
	}{
		{"no engine", httplimit.Config{}, "httplimit: Engine is nil: create one with engine.New"},
		{
			"jitter below zero",
			httplimit.Config{Engine: g.engine, Fields: httplimit.Fields{Jitter: -1}},
			"httplimit: Jitter -1ns: want 0 to 1h0m0s",
		},
		{
			"jitter of a day",
			httplimit.Config{Engine: g.engine, Fields: httplimit.Fields{Jitter: 24 * time.Hour}},
			"httplimit: Jitter 24h0m0s: want 0 to 1h0m0s",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := httplimit.New(tt.config); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
