package top

import (
	"maps"
	"slices"
	"strings"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// ClientText returns a client on one line: user=noisy.
func ClientText(c traffic.RawClient) string {
	attributes := c.Attributes()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		list = append(list, name+"="+attributes[name])
	}
	if len(list) == 0 {
		return "(all clients)"
	}
	return output.Sanitize(strings.Join(list, " "))
}
