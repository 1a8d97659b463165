package headgatev1

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestGeneratedCodeIsWhatTheProtosSay(t *testing.T) {
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Fatal("this test needs protoc on the PATH; on Debian: apt-get install protobuf-compiler libprotobuf-dev")
	}
	dir := t.TempDir()
	if out, err := exec.Command("../../../tools/generate-proto", dir).CombinedOutput(); err != nil {
		t.Fatalf("generate: %v\n%s", err, out)
	}
	made, err := filepath.Glob(filepath.Join(dir, "headgate/v1/*.pb.go"))
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Glob("*.pb.go")
	if err != nil {
		t.Fatal(err)
	}
	if len(made) != 4 || len(here) != len(made) {
		t.Fatalf("made %q, here are %q; want the same four", made, here)
	}
	for _, path := range made {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Base(path))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the protos say; run make proto", filepath.Base(path))
		}
	}
}
