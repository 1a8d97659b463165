package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
)

// The version, the commit, and the commit's time in RFC 3339. The linker sets them in releases.
var version, commit, date string

// A build identifies the source and the toolchain of this program.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"` // of the commit, in RFC 3339
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// currentBuild returns the version from the linker, or from the build information of the go command.
func currentBuild() build {
	b := build{
		Version: version, Commit: commit, Date: date,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.complete(info)
	}
	b.Version = cmp.Or(b.Version, "dev")
	return b
}

// complete sets empty fields from the build information of the go command.
func (b *build) complete(info *debug.BuildInfo) {
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = cmp.Or(b.Commit, s.Value)
		case "vcs.time":
			b.Date = cmp.Or(b.Date, s.Value)
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
}

// String returns the build in one line.
func (b *build) String() string {
	text := "headgate " + b.Version
	var details []string
	if b.Commit != "" {
		details = append(details, fmt.Sprintf("%.12s", b.Commit))
	}
	if b.Date != "" {
		details = append(details, b.Date)
	}
	if b.Modified {
		details = append(details, "modified")
	}
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	return text + " " + b.Go + " " + b.Platform
}

func (p *program) versionCommand() *cobra.Command {
	out := output.Table
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and its date",
		Example: `  headgate version
  headgate --version
  headgate version --output json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := currentBuild()
			return p.ShowOrPrint(out, b, "%s\n", b.String())
		},
	}
	output.AddFlag(c, &out)
	return c
}
