package main

import (
	"runtime/debug"
	"testing"
)

func TestVersionHasCommitAndDate(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v0.2.0"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"},
		{Key: "vcs.time", Value: "2027-01-31T12:00:00Z"},
		{Key: "vcs.modified", Value: "true"},
	}}
	for _, c := range []struct {
		name   string
		linked build
		want   string
	}{
		{
			"go install",
			build{Go: "go1.26", Platform: "linux/amd64"},
			"headgate v0.2.0 (0123456789ab, 2027-01-31T12:00:00Z, modified) go1.26 linux/amd64",
		},
		{
			"release",
			build{Version: "v1.0.0", Commit: "fedcba", Date: "2028-01-01T00:00:00Z", Go: "go1.26", Platform: "linux/amd64"},
			"headgate v1.0.0 (fedcba, 2028-01-01T00:00:00Z, modified) go1.26 linux/amd64",
		},
	} {
		b := c.linked
		b.complete(info)
		if got := b.String(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
