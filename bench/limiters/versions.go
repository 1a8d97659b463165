package limiters

import (
	"context"
	"runtime/debug"

	"github.com/headgate/headgate/bench/harness"
)

// versionsOf returns the version of every module of the entries, as linked into this program.
func versionsOf(list []Entry) []harness.ModuleVersion {
	linked := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			linked[d.Path] = d.Version
		}
	}
	var versions []harness.ModuleVersion
	seen := map[string]bool{"": true}
	for _, e := range list {
		if seen[e.Module] {
			continue
		}
		seen[e.Module] = true
		v := linked[e.Module]
		if v == "" {
			v = "unknown"
		}
		versions = append(versions, harness.ModuleVersion{Module: e.Module, Version: v})
	}
	return versions
}

// Linked returns a function that returns the versions of entries.
func Linked(list []Entry) func(context.Context) []harness.ModuleVersion {
	return func(context.Context) []harness.ModuleVersion { return versionsOf(list) }
}
