//go:build !linux

package stalls

import "errors"

// A Thread is that of a goroutine that is locked to it. It cannot be watched here.
type Thread struct{}

// OwnThread says so.
func OwnThread() (*Thread, error) { return nil, errors.ErrUnsupported }

// Times returns nothing.
func (*Thread) Times() (Times, error) { return Times{}, errors.ErrUnsupported }

// Close does nothing.
func (*Thread) Close() error { return nil }
