//go:build !linux

package stalls

import "errors"

// A Thread cannot be watched on this system.
type Thread struct{}

// OwnThread returns ErrUnsupported.
func OwnThread() (*Thread, error) { return nil, errors.ErrUnsupported }

// Times returns ErrUnsupported.
func (*Thread) Times() (Times, error) { return Times{}, errors.ErrUnsupported }

// Close does nothing.
func (*Thread) Close() error { return nil }
