//go:build !linux

package stalls

import (
	"encoding/json"
	"errors"
	"io"
	"time"
)

func watchCore(int, *json.Encoder) error { return errors.ErrUnsupported }

func sendArrivals(time.Duration, io.Writer) error { return errors.ErrUnsupported }

// Prefer is not supported on this system.
func Prefer() (end func(), err error) { return func() {}, errors.ErrUnsupported }

func machineTime() (time.Duration, error) { return 0, errors.ErrUnsupported }
