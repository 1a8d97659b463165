//go:build !linux

package gateway

import (
	"errors"
	"net"
)

// refuseNew can be done on Linux only. Elsewhere connections that are not yet accepted when a listener closes are reset.
func refuseNew(*net.TCPListener) error { return errors.ErrUnsupported }
