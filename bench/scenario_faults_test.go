package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
	ran, passed, said := readTest([]byte(out), "TestA")
	if want := []string{"five an hour: 4 calls", "flat"}; !ran || !passed || !slices.Equal(said, want) {
		t.Errorf("ran %v, passed %v, said %q; want it to have passed and said %q", ran, passed, said, want)
	}
	if ran, passed, _ := readTest([]byte(`{"Action":"fail","Test":"TestA"}`), "TestA"); !ran || passed {
		t.Errorf("ran %v, passed %v, want it to have failed", ran, passed)
	}
	if ran, _, _ := readTest([]byte(`{"Action":"pass","Package":"p"}`), "TestA"); ran {
		t.Error("a test that is not there has run")
	}
}

func TestFaultTestsAreThere(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faultTests() {
		files, err := filepath.Glob(filepath.Join(root, f.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(path string) bool {
			text, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(text), "func "+f.name+"(")
		}) {
			t.Errorf("package %s has no %s", f.pkg, f.name)
		}
	}
}
