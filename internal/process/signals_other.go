//go:build !unix

package process

import (
	"errors"
	"os/exec"
)

var errNoSignals = errors.New("process: servers are tested on Unix systems")

func setProcAttr(*exec.Cmd) {}

func kill(int) error   { return errNoSignals }
func pause(int) error  { return errNoSignals }
func resume(int) error { return errNoSignals }
