package gateway

import (
	"context"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/site"
)

// programVersions returns the versions of the programs that the gateway is measured with.
func programVersions(ctx context.Context) []harness.ModuleVersion {
	var list []harness.ModuleVersion
	for _, p := range []struct{ name, ask string }{
		{"nginx", "-v"},
		{"haproxy", "-v"},
		{"caddy", "version"},
		{"wrk", "-v"},
		{"h2load", "--version"},
	} {
		list = append(list, harness.ModuleVersion{Module: p.name, Version: site.ProgramVersion(ctx, p.name, p.ask)})
	}
	return list
}
