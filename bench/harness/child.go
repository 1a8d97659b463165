package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// ChildFlags are the flags of a child process.
type ChildFlags struct {
	Mode      string
	Contender string
	Quota     string
	Keys      int
	Picks     int
	At        string
	Seconds   float64
	Target    string
}

// The modes of a child.
const (
	ChildMem    = "mem"    // fill, print what it takes, end
	ChildServe  = "serve"  // the same, and then do what is asked on standard input
	ChildCarry  = "carry"  // serve, with the ballast that the program has
	ChildTable  = "table"  // fill, printing how large the table is on the way
	ChildGrowth = "growth" // fill, printing how long each insertion took

	ChildResponder = "responder" // be the upstream of proxies, and send them requests at a constant rate if told to
	ChildFront     = "front"     // be a proxy, or a server that a proxy is measured by
	ChildClients   = "clients"   // register clients, print what they take and cost
	ChildRules     = "rules"     // match and decide, print how long it took
	ChildServer    = "server"    // be a server of the decision service, or one that it is measured by
)

// ChildEnv is the environment variable of child processes. Tests need it, because a test binary has flags of its own.
const ChildEnv = "HEADGATE_BENCH_CHILD"

// ChildCommand returns the command that runs this program as a child.
func ChildCommand(ctx context.Context, f ChildFlags) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self,
		"-child", f.Mode, "-contender", f.Contender, "-quota", f.Quota,
		"-keys", strconv.Itoa(f.Keys), "-picks", strconv.Itoa(f.Picks), "-at", f.At,
		"-seconds", strconv.FormatFloat(f.Seconds, 'g', -1, 64), "-target", f.Target)
	cmd.Env = append(os.Environ(), ChildEnv+"=1")
	return cmd, nil
}

// RunChildOnce runs a child to its end and reads the one result that it prints.
func RunChildOnce[T any](ctx context.Context, f ChildFlags) (answer T, err error) {
	cmd, err := ChildCommand(ctx, f)
	if err != nil {
		return answer, err
	}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	printed, err := cmd.Output()
	if err != nil {
		return answer, fmt.Errorf("%s of %s with %d keys: %w: %s", f.Mode, f.Contender, f.Keys, err,
			bytes.TrimSpace(complaints.Bytes()))
	}
	if err := json.Unmarshal(printed, &answer); err != nil {
		return answer, fmt.Errorf("%s of %s with %d keys: read answer: %w", f.Mode, f.Contender, f.Keys, err)
	}
	return answer, nil
}
