package sim

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSoakSweepFindsBugsInTheRealCode changes a line of the product, and runs the sweep with it.
func TestSoakSweepFindsBugsInTheRealCode(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") != "1" {
		t.Skip("compiles the product again: set HEADGATE_SOAK=1")
	}
	for _, c := range []struct{ name, file, right, wrong string }{
		{
			"units of a lease are used in the next window", "../fleet/lease/call.go",
			"expires: q.at + min(l.options.TTL, h.windowEnds(d.Receipt.At))", "expires: q.at + l.options.TTL",
		},
		{
			"units of a lease are used for twice its time", "../fleet/lease/call.go",
			"expires: q.at + min(l.options.TTL,", "expires: q.at + min(2*l.options.TTL,",
		},
		{
			"a node returns units twice", "../fleet/lease/return.go",
			"l.returnUnits(l.life, h, o.grant.receipt(o.units))", "l.returnUnits(l.life, h, o.grant.receipt(2*o.units))",
		},
		{
			"a node does not learn the units of the window before", "../fleet/internal/exchange/note.go",
			"t.Previous, t.Level = t.Level>>previousBits, 0", "t.Previous, t.Level = 0, 0",
		},
		{
			"a new key is not looked up", "../fleet/async/async.go",
			"counts.StartLookups(l.rounds.Hurry)", "_ = l.rounds.Hurry",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			source, err := os.ReadFile(c.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), c.right); n != 1 {
				t.Fatalf("%s has %q %d times, want once", c.file, c.right, n)
			}
			changed := filepath.Join(t.TempDir(), "changed.go")
			if err := os.WriteFile(changed, []byte(strings.Replace(string(source), c.right, c.wrong, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := filepath.Abs(c.file)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
			if err != nil {
				t.Fatal(err)
			}
			overlay := filepath.Join(t.TempDir(), "overlay.json")
			if err := os.WriteFile(overlay, text, 0o600); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-overlay="+overlay,
				"-run=TestSoakSweepHoldsInvariants", ".", "-sim.last=1000", "-sim.failures=1")
			out, err := command.CombinedOutput()
			found := regexp.MustCompile(`seed \d+: .*`).Find(out)
			if err == nil || found == nil {
				t.Fatalf("not found within 1000 seeds:\n%s", out)
			}
			t.Logf("found by %s", found)
		})
	}
}
