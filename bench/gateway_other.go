//go:build !linux

package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

var errOnlyLinux = errors.New("the gateway is measured on Linux only")

func runResponder(io.Reader, *json.Encoder) error { return errOnlyLinux }
func inRealTime(int, int) error                   { return errOnlyLinux }
func runPace(paceOrder) (paceResult, error)       { return paceResult{}, errOnlyLinux }
func ownCores() ([]int, error)                    { return nil, errOnlyLinux }
func endsWithUs() *syscall.SysProcAttr            { return nil }
func groupTime(int) (time.Duration, error)        { return 0, errOnlyLinux }
func killGroup(int)                               {}
func interrupt(*os.Process) error                 { return errOnlyLinux }
