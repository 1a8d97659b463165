package sim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/server/sim"
	"github.com/headgate/headgate/server/sim/scenario"
)

// replayed runs a scenario that replays a log with the given lines.
func replayed(t *testing.T, lines, fields string) *sim.Results {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "access.log"), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "duration: 10s\nlimits: [2/s]\nmodes: [local, exact]\ntraffic: [{ log: access.log" + fields + " }]\n"
	s, err := scenario.Parse(filepath.Join(dir, "scenario.yaml"), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Run(t.Context(), s, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryFormatOfALogIsReplayed(t *testing.T) {
	var common, combined, jsonLines strings.Builder
	csv := strings.Builder{}
	csv.WriteString("time,ip,path\n")
	for second := range 5 {
		for range 4 { // of which 2 per second fit, and 2 more at the beginning
			fmt.Fprintf(&common, "192.0.2.1 - - [10/Oct/2026:13:55:%02d +0000] \"GET /a HTTP/1.1\" 200 5\n", second)
			fmt.Fprintf(&combined, "192.0.2.1 - - [10/Oct/2026:13:55:%02d +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"x\"\n", second)
			fmt.Fprintf(&jsonLines, "{\"time\":\"2026-10-10T13:55:%02dZ\",\"ip\":\"192.0.2.1\",\"path\":\"/a\"}\n", second)
			fmt.Fprintf(&csv, "2026-10-10T13:55:%02dZ,192.0.2.1,/a\n", second)
		}
	}
	for name, lines := range map[string]string{
		"common": common.String(), "combined": combined.String(), "json": jsonLines.String(), "csv": csv.String(),
	} {
		t.Run(name, func(t *testing.T) {
			all := replayed(t, lines, "")
			for _, r := range all.Results {
				if r.Requests != 20 || r.Admitted != 11 {
					t.Errorf("%s: %d of %d requests were admitted, want 11 of 20", r.Mode, r.Admitted, r.Requests)
				}
			}
			if len(all.Logs) != 1 || string(all.Logs[0].Format) != name || all.Logs[0].Skipped != 0 {
				t.Errorf("got %+v, want a log in the format %s without skipped lines", all.Logs, name)
			}
		})
	}
}

func TestLinesThatCannotBeReadAreCountedAndShown(t *testing.T) {
	lines := "{\"time\":\"2026-10-10T13:55:00.5Z\",\"user\":\"ann\"}\nnonsense\n{\"time\":\"2026-10-10T13:55:06.5Z\",\"user\":\"ann\"}\n" +
		"{\"time\":\"2026-10-10T13:55:01Z\",\"ip\":\"192.0.2.1\"}\n"
	all := replayed(t, lines, ", log_key: user, speed: 2")
	log := all.Logs[0]
	if log.Skipped != 2 || len(log.Examples) != 2 || log.Examples[0].Line != 2 || log.Examples[1].Line != 4 {
		t.Errorf("got %+v, want lines 2 and 4 as skipped", log)
	}
	r := all.Results[0]
	// At twice the speed the second request comes 3 s after the first.
	if at := int(3 / r.Series.StepSeconds); r.Requests != 2 || r.Series.Requests[0] != 1 || r.Series.Requests[at] != 1 {
		t.Errorf("got requests at %v, want one at 0 s and one at 3 s", r.Series.Requests)
	}
}
