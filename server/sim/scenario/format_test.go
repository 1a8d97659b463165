package scenario_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/headgate/headgate/server/sim/scenario"
)

func TestAFormattedScenarioIsTheSame(t *testing.T) {
	files, err := filepath.Glob("../../../examples/scenarios/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, file := range files {
		s, err := scenario.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Traffic {
			if log := &s.Traffic[i].Log; *log != "" {
				if *log, err = filepath.Abs(*log); err != nil {
					t.Fatal(err)
				}
			}
		}
		text := scenario.Format(s)
		again, err := scenario.Parse(filepath.Join(os.TempDir(), "again.yaml"), text)
		if err != nil {
			t.Errorf("%s: %v in\n%s", file, err, text)
			continue
		}
		if !reflect.DeepEqual(again, s) {
			t.Errorf("%s: got %+v, want %+v", file, again, s)
		}
	}
}

func TestSeedZeroIsNotTheDefault(t *testing.T) {
	for line, want := range map[string]int{"": 1, "seed: 0": 0, "seed: 1": 1, "seed: 7": 7} {
		text := "duration: 1m\nlimits: [10/s]\ntraffic: [{ rate: 5 }]\n" + line
		s, err := scenario.Parse("x.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		again, err := scenario.Parse("x.yaml", scenario.Format(s))
		if err != nil || s.Seed != want || again.Seed != want {
			t.Errorf("%q: got the seed %d, formatted %d, error %v, want %d", line, s.Seed, again.Seed, err, want)
		}
	}
}

func TestFaultsNameNodesThatHaveJoined(t *testing.T) {
	const text = "duration: 1m\nnodes: 2\nlimits: [10/s]\ntraffic: [{ rate: 5 }]\n" +
		"faults: [{ kind: crash, at: %s, nodes: [3] }, { kind: join, at: 10s, count: 2 }]"
	for at, want := range map[string]bool{"9s": false, "10s": false, "11s": true} {
		_, err := scenario.Parse("x.yaml", []byte(fmt.Sprintf(text, at)))
		if got := err == nil; got != want {
			t.Errorf("a crash of node 3 at %s is accepted: %v, want %v (%v)", at, got, want, err)
		}
	}
}
