package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestDurationFlagAcceptsDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 10 * time.Minute, "90s": 90 * time.Second, "1.5h": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour,
	} {
		flags := pflag.NewFlagSet("top", pflag.ContinueOnError)
		window := 10 * time.Minute
		AddDurationFlag(flags, &window, "window", "show the last `DURATION`")
		if usage := flags.FlagUsages(); !strings.Contains(usage, "--window DURATION   show the last DURATION (default 10m0s)") {
			t.Errorf("got usage %q, want the name and the default", usage)
		}
		var args []string
		if text != "" {
			args = []string{"--window", text}
		}
		if err := flags.Parse(args); err != nil || window != want {
			t.Errorf("%q: got %v, %v, want %v", text, window, err, want)
		}
		if err := flags.Parse([]string{"--window", "a week"}); err == nil || !strings.Contains(err.Error(), "such as 500ms, 30s, 1h30m, 7d") {
			t.Errorf("a week: got %v, want what to write", err)
		}
	}
}
