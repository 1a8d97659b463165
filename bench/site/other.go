//go:build !linux

package site

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

var errOnlyLinux = errors.New("the benchmark of servers needs Linux")

func RunResponder(io.Reader, *json.Encoder) error { return errOnlyLinux }
func InRealTime(int, int) error                   { return errOnlyLinux }
func runPace(PaceOrder) (paceResult, error)       { return paceResult{}, errOnlyLinux }
func OwnCores() ([]int, error)                    { return nil, errOnlyLinux }
func endsWithUs() *syscall.SysProcAttr            { return nil }
func groupTime(int) (time.Duration, error)        { return 0, errOnlyLinux }
func killGroup(int)                               {}
func interrupt(*os.Process) error                 { return errOnlyLinux }
