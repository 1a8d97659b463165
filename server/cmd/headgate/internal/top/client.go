package top

import (
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// ClientText returns a client on one line: user=noisy.
func ClientText(c traffic.RawClient) string {
	if text := output.FormatAttributes(c.Attributes()); text != "" {
		return output.Sanitize(text)
	}
	return "(all clients)"
}
