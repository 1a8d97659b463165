package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/headgate/headgate/internal/racing"
)

// TestMain makes this binary the command headgate as well, which scripts and tests run as a process of its own.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"headgate": main}) }

func TestCommandScripts(t *testing.T) {
	racing.Skip(t, "commands compute in one goroutine, so there are no races")
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir) // each script has its own directory for state
			e.Vars = append(e.Vars, "LC_ALL=C")
			for _, part := range []string{"API", "GRPC", "RESP"} { // scripts run in parallel, and turn on what they need
				e.Vars = append(e.Vars, "HEADGATE_"+part+"_ADDR=off")
			}
			return nil
		},
	})
}
