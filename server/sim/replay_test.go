package sim_test

import (
	"bytes"
	"compress/gzip"
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

// Dates that are wrong, as of a device whose clock is not set, do not end the replay.
func TestLinesWithOutlyingDatesAreCountedAndShown(t *testing.T) {
	const good = 400
	for name, wrong := range map[string]map[int]string{
		"first line":   {0: "1970-01-01T00:00:01Z"},
		"first is new": {0: "2030-10-10T13:55:00Z"},
		"middle":       {100: "2030-10-10T13:55:00Z", 200: "1970-01-01T00:00:01Z", 201: "1970-01-01T00:00:01Z"},
		"an hour off":  {100: "2026-10-10T14:55:00Z", 101: "2026-10-10T14:55:00Z"},
		"last line":    {good: "2030-10-10T13:55:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines strings.Builder
			for i, written := 0, 0; written < good || wrong[i] != ""; i++ {
				at := fmt.Sprintf("2026-10-10T13:55:%06.3fZ", 0.5+float64(written)/50)
				if wrong[i] != "" {
					at = wrong[i]
				} else {
					written++
				}
				fmt.Fprintf(&lines, "{\"time\":%q,\"ip\":\"192.0.2.1\"}\n", at)
			}
			all := replayed(t, lines.String(), "")
			log := all.Logs[0]
			if all.Results[0].Requests != good || log.Requests != good || log.Skipped != int64(len(wrong)) {
				t.Fatalf("replayed %d requests, and got %+v; want %d, and %d lines that are not used", all.Results[0].Requests, log,
					good, len(wrong))
			}
			for i, e := range log.Examples {
				if wrong[int(e.Line)-1] == "" || !strings.Contains(e.Reason, "its time is ") {
					t.Errorf("example %d: got %+v, want the time of a wrong line", i, e)
				}
			}
		})
	}
}

// Lines after the end of the simulation end the replay, and so does the end of the log after a pause of months.
func TestLogsMayBeLongerThanTheSimulation(t *testing.T) {
	var lines strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&lines, "{\"time\":\"2026-10-10T13:%02d:%02d.5Z\",\"ip\":\"192.0.2.1\"}\n", i/60, i%60)
	}
	all := replayed(t, lines.String(), "")
	if got := all.Results[0].Requests; got != 10 || all.Logs[0].Skipped != 0 {
		t.Errorf("replayed %d requests and skipped %d lines, want 10 and none", got, all.Logs[0].Skipped)
	}
}

func TestTruncatedCompressedLogsAreReplayed(t *testing.T) {
	var file bytes.Buffer
	zip := gzip.NewWriter(&file)
	for i := range 1000 {
		fmt.Fprintf(zip, "{\"time\":\"2026-10-10T13:55:%06.3fZ\",\"ip\":\"192.0.2.%d\"}\n", float64(i)/100, i*i%251)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	all := replayed(t, file.String()[:file.Len()/2], "")
	if log := all.Logs[0]; all.Results[0].Requests < 100 || log.Incomplete == "" || log.Skipped != 0 {
		t.Errorf("replayed %d requests of %+v, want those of the first half, and why the rest is missing",
			all.Results[0].Requests, log)
	}
}
