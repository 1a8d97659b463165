package gateway

import (
	"github.com/headgate/headgate/bench/harness"
)

// Part returns the part that measures the gateway beside other proxies.
func Part() harness.Part {
	return harness.Part{
		Name: "gateway", Title: "At the gateway", Scenarios: gatewayScenarios(), Versions: programVersions,
		Method: gatewayMethod, Report: reportGateway, Bars: Bars,
	}
}
