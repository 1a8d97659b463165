package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BuildHeadgate builds the program from the sources around this one, once.
func (b *Bench) BuildHeadgate(ctx context.Context) (string, error) {
	if b.headgate != "" {
		return b.headgate, nil
	}
	root, err := Repository()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "headgate-bench-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "headgate")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, "./server/cmd/headgate")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=") // go.work joins the modules
	if said, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return "", fmt.Errorf("build headgate: %w: %s", err, said)
	}
	b.headgate = path
	return path, nil
}

// RemoveHeadgate removes the program if it was built.
func (b *Bench) RemoveHeadgate() {
	if b.headgate != "" {
		_ = os.RemoveAll(filepath.Dir(b.headgate)) // what is left of it is the system's to clear
	}
}
