package faults

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/bench/harness"
)

func TestWhatATestSaysIsRead(t *testing.T) {
	out := strings.Join([]string{
		`{"Action":"start","Package":"p"}`,
		`{"Action":"run","Test":"TestA"}`,
		`{"Action":"output","Test":"TestA/five_an_hour","Output":"    hot_test.go:84: 4 calls\n"}`,
		`{"Action":"output","Test":"TestA","Output":"    hot_test.go:99: flat\n"}`,
		`{"Action":"output","Test":"TestAB","Output":"    hot_test.go:99: of another\n"}`,
		`{"Action":"output","Test":"TestA","Output":"--- PASS: TestA (0.1s)\n"}`,
		`{"Action":"pass","Test":"TestA"}`,
	}, "\n")
	ran, passed, said := harness.ReadTest([]byte(out), "TestA")
	if want := []string{"five an hour: 4 calls", "flat"}; !ran || !passed || !slices.Equal(said, want) {
		t.Errorf("ran %v, passed %v, said %q; want it to have passed and said %q", ran, passed, said, want)
	}
	if ran, passed, _ := harness.ReadTest([]byte(`{"Action":"fail","Test":"TestA"}`), "TestA"); !ran || passed {
		t.Errorf("ran %v, passed %v, want it to have failed", ran, passed)
	}
	if ran, _, _ := harness.ReadTest([]byte(`{"Action":"pass","Package":"p"}`), "TestA"); ran {
		t.Error("a test that is not there has run")
	}
}

func TestFaultTestsAreThere(t *testing.T) {
	root, err := harness.Repository()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faultTests() {
		files, err := filepath.Glob(filepath.Join(root, f.Pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(path string) bool {
			text, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(text), "func "+f.Name+"(")
		}) {
			t.Errorf("package %s has no %s", f.Pkg, f.Name)
		}
	}
}

func TestWhatFaultTestsSayIsHeldAgainstBars(t *testing.T) {
	r := &harness.Results{Faults: []harness.TestRow{
		{Test: "TestDeniedHotKeyHardlyCallsTheServer", Passed: true, Said: []string{
			"for long: 2.2s: 108133 asked, 0 allowed; denials from memory: p50 695ns, p95 1.183µs, p99 1.919µs; all: p50 695ns, p99 356.351µs, longest 15.70625ms of 108133",
			"for a moment: 1s: 46994 asked, 10 allowed; denials from memory: p50 671ns, p95 1.503µs, p99 2.591µs; all: p50 735ns, p99 21.495807ms, longest 23.431283ms of 46984",
		}},
		{Test: "TestHungServerIsSurvived", Passed: true, Said: []string{
			"circuit opened after 22.049658ms; until then: p50 2.523135ms, p99 21.089037ms, p99.9 26.089037ms, longest 26.089037ms of 99",
			"then: p50 695ns, p99 7.999µs, p99.9 26.879µs, longest 131.18µs of 8901",
			"exact 176.479366ms after the end",
		}},
		{Test: "TestKilledClusterPrimaryCausesNoErrors", Passed: false, Said: []string{
			"full coverage yes: after the kill: replica promoted 2.8s, last degraded decision 3.1s, 300ms after that",
			"full coverage no: after the kill: replica promoted 3.5s, last degraded decision 3.6s, 100ms after that",
		}},
	}}
	want := map[string][2]string{
		"faults":                    {"2 of 3", harness.NotMet},
		"a denial from memory, p99": {"2.6 µs", harness.Met},
		"SIGSTOP, a call until the circuit opens, p99.9":                              {"26.1 ms", harness.NotMet},
		"SIGSTOP, a call after that, p99":                                             {"8.0 µs", harness.Met},
		"exact again after SIGCONT":                                                   {"176.5 ms", harness.Met},
		"exact again after SIGKILL of a primary, whose cluster-node-timeout is 1.5 s": {"3.60 s", harness.NotMet},
		"exact again after the cluster itself has another primary":                    {"300.0 ms", harness.Met},
	}
	got := faultBars(r)
	if len(got) != len(want) {
		t.Errorf("got %d bars, want %d", len(got), len(want))
	}
	for _, b := range got {
		if w := want[b.What]; b.Measured != w[0] || b.Verdict != w[1] {
			t.Errorf("%s: got %q, %s; want %q, %s", b.What, b.Measured, b.Verdict, w[0], w[1])
		}
	}
	for _, b := range faultBars(&harness.Results{Faults: []harness.TestRow{{Test: "TestOther"}}})[1:] {
		if b.Verdict != harness.NotMeasured {
			t.Errorf("%s: got %s of a run that says nothing of it", b.What, b.Verdict)
		}
	}
}
