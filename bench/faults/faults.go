package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/bench/harness"
)

// faultTests run one after the other, and nothing else runs on the machine. The tests check their results themselves.
func faultTests() []harness.GoTest {
	return []harness.GoTest{
		{Pkg: "redisstore", Name: "TestLuaDecidesAsGo", What: "scripts against Go, random steps"},
		{Pkg: "redisstore", Name: "TestEveryDecisionIsOneCall", What: "calls of the server for a decision"},
		{Pkg: "redisstore", Name: "TestMemoryPerKey", What: "memory in Redis, 28-byte keys included"},
		{
			Pkg: "redisstore", Name: "TestGreedyClientDoesNotDrainItsTenant",
			What: "a client at 50 times its limit, beside its tenant's",
		},
		{Pkg: "redisstore", Name: "TestNewPrimaryWithAnotherClock", What: "a new primary whose clock is 10 s off"},
		{Pkg: "redisstore/guard", Name: "TestDeniedHotKeyHardlyCallsTheServer", What: "a hot key that is denied"},
		{Pkg: "redisstore/guard", Name: "TestHungServerIsSurvived", What: "SIGSTOP of the server"},
		{Pkg: "redisstore/guard", Name: "TestNetworkWithFullPacketLossIsSurvived", What: "a network that swallows everything"},
		{Pkg: "redisstore/guard", Name: "TestCutNetworkIsSurvived", What: "a network that is cut"},
		{
			Pkg: "redisstore/guard", Name: "TestKilledClusterPrimaryCausesNoErrors",
			What: "SIGKILL of a primary of a cluster",
		},
		{
			Pkg: "redisstore/guard", Name: "TestSentinelFailoverCausesNoErrors",
			What: "sentinels put another primary in its place",
		},
		{Pkg: "redisstore/guard", Name: "TestMovingSlotIsFollowedExactly", What: "slots that move while they are asked"},
		{Pkg: "redisstore/guard", Name: "TestHalfMovedSlotDoesNotAffectOthers", What: "a slot held half way"},
		{Pkg: "redisstore/guard", Name: "TestFlushedScriptsChangeNothing", What: "SCRIPT FLUSH again and again"},
		{Pkg: "redisstore/guard", Name: "TestCallWithoutAResponseIsNeverResent", What: "calls that are not answered"},
		{Pkg: "redisstore/guard", Name: "TestPolicyDecidesUntilTheServerIsReachable", What: "a server that is away at boot"},
	}
}

// runFaults runs the tests that break Redis.
func runFaults(ctx context.Context, b *harness.Bench) error {
	list := faultTests()
	if b.Results.Quick {
		list = slices.DeleteFunc(list, func(f harness.GoTest) bool { return f.Name != "TestHungServerIsSurvived" })
	}
	for i, f := range list {
		b.Progress.At(float64(i)/float64(len(list)), "faults", f.What)
		row, err := harness.RunGoTest(ctx, f)
		if err != nil {
			return err
		}
		b.Results.Faults = append(b.Results.Faults, row)
	}
	return nil
}

// faultsMethod describes how faults are tested.
func faultsMethod(b *strings.Builder, _ *harness.Results) {
	b.WriteString("- These are the tests of `guard` and `redisstore` with real servers, each run on its own. They load what they break from many\n" +
		"  goroutines, and fail if more passes than may, an error reaches a caller, or somebody waits for too long. Here is what they say of it.\n")
}

// reportFaults writes the results of the tests.
func reportFaults(b *strings.Builder, r *harness.Results) {
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
