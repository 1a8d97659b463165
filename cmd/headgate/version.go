package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker in releases.
var version string

// A build is what this program was made of.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisBuild reads what the linker and the go command have left in the program.
func thisBuild() build {
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
	var out format
	c := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
		Example: `  headgate version
  headgate --version
  headgate version --output json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if out != formatTable {
				return p.show(out, b, nil, nil)
			}
			p.say("%s\n", b.String())
			return nil
		},
	}
	formatFlag(c, &out)
	return c
}
