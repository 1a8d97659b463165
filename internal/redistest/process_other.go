//go:build !unix

package redistest

import (
	"errors"
	"syscall"
)

var errNoSignals = errors.New("redistest: Redis needs a Unix system")

func attributes() *syscall.SysProcAttr { return nil }

func signalKill(int) error   { return errNoSignals }
func signalPause(int) error  { return errNoSignals }
func signalResume(int) error { return errNoSignals }
