package memstore

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const copyingCode = `package memstore

func copyStore(s *Store) any {
	copied := *s
	return &copied
}
`

// A copy of a store would share some counters and not others, so "go vet" refuses it.
func TestCopyOfAStoreIsRefusedByVet(t *testing.T) {
	code, overlay := filepath.Join(t.TempDir(), "copying.go"), filepath.Join(t.TempDir(), "overlay.json")
	here, err := filepath.Abs("copying.go") // exists only for the go command below
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {here: code}})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{code: copyingCode, overlay: string(replace)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", "vet", "-overlay", overlay, ".").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "copies lock value") {
		t.Errorf("go vet: got %v\n%s\nwant it to say that the assignment copies a lock", err, out)
	}
}
