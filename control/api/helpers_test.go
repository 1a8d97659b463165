package api_test

import (
	"net/netip"
	"time"

	"github.com/headgate/headgate/control/api"
)

// loopback lets webhooks be sent to this host, soon and soon again.
var loopback = api.HookConfig{
	Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("192.0.2.0/24")},
	Backoff:  time.Millisecond, MaxBackoff: 10 * time.Millisecond, Attempts: 4,
}
