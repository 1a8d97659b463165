package site

import (
	"context"
	"os/exec"
	"regexp"
	"time"
)

// versionWord matches a version.
var versionWord = regexp.MustCompile(`\d+(\.\d+)+\S*`)

// ProgramVersion returns the version that a program prints.
func ProgramVersion(ctx context.Context, name, ask string) string {
	path, err := Program(name)
	if err != nil {
		return "not installed"
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	said, err := exec.CommandContext(ctx, path, ask).CombinedOutput()
	if found := versionWord.Find(said); found != nil { // wrk tells it and fails
		return string(found)
	}
	if err != nil {
		return "unknown: " + err.Error()
	}
	return "unknown"
}
