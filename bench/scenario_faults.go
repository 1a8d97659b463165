package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A faultTest is a test that breaks something of Redis and says what it measured meanwhile.
type faultTest struct{ pkg, name, what string }

// faultTests are run one after the other, with the machine to themselves. What they must show, they check themselves.
func faultTests() []faultTest {
	return []faultTest{
		{"redisstore", "TestLuaDecidesAsGo", "scripts against Go, random steps"},
		{"redisstore", "TestEveryDecisionIsOneCall", "calls of the server for a decision"},
		{"redisstore", "TestMemoryPerKey", "memory in Redis, 28-byte keys included"},
		{"redisstore", "TestOneGreedyClientDoesNotHurtItsTenant", "a client at 50 times its limit, beside its tenant's"},
		{"redisstore", "TestTheNewPrimarysClockIsBehindOrAhead", "a new primary whose clock is 10 s off"},
		{"guard", "TestAHotKeyThatIsDeniedCostsTheServerNextToNothing", "a hot key that is denied"},
		{"guard", "TestAServerThatHangsHoldsNobodyUp", "SIGSTOP of the server"},
		{"guard", "TestANetworkThatSwallowsEverythingHoldsNobodyUp", "a network that swallows everything"},
		{"guard", "TestANetworkThatIsCutHoldsNobodyUp", "a network that is cut"},
		{"guard", "TestAKilledPrimaryOfAClusterIsReplacedAndNoErrorReachesACaller", "SIGKILL of a primary of a cluster"},
		{"guard", "TestSentinelsReplaceThePrimaryAndNoErrorReachesACaller", "sentinels put another primary in its place"},
		{"guard", "TestASlotThatMovesIsFollowedExactly", "slots that move while they are asked"},
		{"guard", "TestASlotHeldHalfwayHurtsNobodyElse", "a slot held half way"},
		{"guard", "TestScriptsThatAreFlushedChangeNothing", "SCRIPT FLUSH again and again"},
		{"guard", "TestACallThatIsNotAnsweredIsNeverSentAgain", "calls that are not answered"},
		{"guard", "TestAServerThatIsAwayAtBootIsWaitedForByPolicy", "a server that is away at boot"},
	}
}

// A faultRow is what a test measured.
type faultRow struct {
	Test, What string
	Passed     bool
	Said       []string
}

// runFaults runs the tests that break Redis.
func runFaults(ctx context.Context, b *bench) error {
	list := faultTests()
	if b.results.Quick {
		list = slices.DeleteFunc(list, func(f faultTest) bool { return f.name != "TestAServerThatHangsHoldsNobodyUp" })
	}
	for i, f := range list {
		b.progress.at(float64(i)/float64(len(list)), "faults", f.what)
		row, err := runFault(ctx, f)
		if err != nil {
			return err
		}
		b.results.Faults = append(b.results.Faults, row)
	}
	return nil
}

func runFault(ctx context.Context, f faultTest, env ...string) (faultRow, error) {
	row := faultRow{Test: f.name, What: f.what}
	root, err := repository()
	if err != nil {
		return row, err
	}
	// #nosec G204 -- the names are those of the list above
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout=20m", "-run", "^"+f.name+"$", "./"+f.pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		return row, fmt.Errorf("go test %s: %w", f.name, errors.Join(ctx.Err(), err))
	}
	ran := false
	ran, row.Passed, row.Said = readTest(out, f.name)
	if !ran {
		return row, fmt.Errorf("go test ./%s ran no test %s: %s%s", f.pkg, f.name, out, complaints.Bytes())
	}
	return row, nil
}

// repository returns the folder of the module that is measured.
func repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "guard", "doc.go")); missing == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("run it in a checkout of the repository: the tests of guard and redisstore are not here")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// logged is a line that a test logs, with where it does.
var logged = regexp.MustCompile(`^\s+[a-z_]+_test\.go:\d+: (.*)$`)

// readTest reads what go test -json prints: whether the test ran, whether it passed, and what it and its parts logged.
func readTest(out []byte, name string) (ran, passed bool, said []string) {
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil || !strings.HasPrefix(e.Test+"/", name+"/") {
			continue
		}
		ran = true
		if e.Test == name && e.Action == "pass" {
			passed = true
		}
		if m := logged.FindStringSubmatch(strings.TrimRight(e.Output, "\n")); m != nil {
			text := m[1]
			if _, part, ok := strings.Cut(e.Test, "/"); ok {
				text = strings.ReplaceAll(part, "_", " ") + ": " + text
			}
			said = append(said, text)
		}
	}
	return ran, passed, said
}

// faultsMethod says how faults are shown.
func faultsMethod(b *strings.Builder, _ *results) {
	b.WriteString("- These are the tests of `guard` and `redisstore` with real servers, each run on its own. They load what they break from many\n" +
		"  goroutines, and fail if more passes than may, an error reaches a caller, or somebody waits for too long. Here is what they say of it.\n")
}

// reportFaults writes what the tests said.
func reportFaults(b *strings.Builder, r *results) {
	if len(r.Faults) == 0 {
		return
	}
	b.WriteString("\n### Faults\n\n| what | measured | |\n|---|---|---|\n")
	for _, f := range r.Faults {
		verdict := "passed"
		if !f.Passed {
			verdict = "**failed**"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", f.What, strings.ReplaceAll(strings.Join(f.Said, "<br>"), "|", `\|`), verdict)
	}
}
