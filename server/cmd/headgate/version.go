package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
)

// version is set by the linker in releases.
var version string

// A build describes the version of this program.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// currentBuild returns the version from the linker and the build information of the go command.
func currentBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Revision = s.Value
			case "vcs.time":
				b.Time = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
	}
	if b.Version == "" {
		b.Version = "dev"
	}
	return b
}

// String returns the build in one line.
func (b *build) String() string {
	text := "headgate " + b.Version
	if b.Revision != "" {
		text += fmt.Sprintf(" (%.12s)", b.Revision)
	}
	return text + " " + b.Go + " " + b.Platform
}

func (p *program) versionCommand() *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Example: `  headgate version
  headgate --version
  headgate version --output json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := currentBuild()
			if out != output.Table {
				return p.show(out, b, nil, nil)
			}
			p.printf("%s\n", b.String())
			return nil
		},
	}
	output.AddFlag(c, &out)
	return c
}
