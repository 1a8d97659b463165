package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The clock of one process cannot be moved: Go programs read it from memory that the kernel shares with all processes.
// So the nodes of this test are built with a package time whose Now adds a number of seconds, which a node reads from a
// file when it gets SIGUSR2. As with a real clock, the monotonic time stays as it is. The program itself is unchanged.

const clockFileVariable = "HEADGATE_CHAOS_CLOCK"

// movableNow is added to package time.
const movableNow = `
var addedSeconds atomic.Int64

// AddSeconds moves the clock of this process.
func AddSeconds(n int64) { addedSeconds.Store(n) }
`

// clockReader is added to the command.
const clockReader = `package main

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func init() {
	moved := make(chan os.Signal, 1)
	signal.Notify(moved, syscall.SIGUSR2)
	go func() {
		for range moved {
			data, err := os.ReadFile(os.Getenv("` + clockFileVariable + `"))
			if err != nil {
				panic(err)
			}
			n, err := strconv.ParseInt(string(data), 10, 64)
			if err != nil {
				panic(err)
			}
			time.AddSeconds(n)
		}
	}()
}
`

// buildWithMovableClock builds headgate from the sources in a directory, with a clock that can be moved.
func buildWithMovableClock(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time", "time.go")
	data, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const now = "\tsec, nsec, mono := runtimeNow()\n"
	text := string(data)
	if strings.Count(text, now) != 1 || strings.Count(text, "import (\n") != 1 {
		t.Fatalf("%s is not as expected: adapt movableNow", source)
	}
	text = strings.Replace(text, now, now+"\tsec += addedSeconds.Load()\n", 1)
	text = strings.Replace(text, "import (\n", "import (\n\t\"sync/atomic\"\n", 1) + movableNow
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string]map[string]string{"Replace": {
		source: filepath.Join(dir, "time.go"),
		filepath.Join(absolute, "server", "cmd", "headgate", "chaos_clock.go"): filepath.Join(dir, "clock.go"),
	}}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"time.go": text, "clock.go": clockReader, "overlay.json": string(list)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return buildProgram(t, root, "-overlay", filepath.Join(dir, "overlay.json"))
}

// moveClock moves a node's clock from the true time.
func (s *system) moveClock(p *program, by time.Duration) {
	text := strconv.FormatInt(int64(by/time.Second), 10)
	if err := os.WriteFile(p.clock, []byte(text), 0o600); err != nil {
		s.t.Error(err)
	}
	s.send(p, syscall.SIGUSR2)
	s.await("the moved clock of "+p.name, func() error {
		response, err := s.client.Get("http://" + p.admin + "/readyz")
		if err != nil {
			return err
		}
		_ = response.Body.Close() // only its header is needed
		shown, err := http.ParseTime(response.Header.Get("Date"))
		if off := time.Until(shown) - by; err == nil && off.Abs() > 10*time.Second {
			err = fmt.Errorf("its clock is off by %v, want %v", time.Until(shown).Round(time.Second), by)
		}
		return err
	})
}
