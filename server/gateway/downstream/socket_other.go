//go:build !unix

package downstream

import (
	"net"

	"github.com/headgate/headgate/server/gateway/internal/responsewriter"
)

// A socket saves system calls on Unix. On other systems newSocket returns nil, so no method of socket is ever called.
type socket struct{}

func newSocket(net.Conn) *socket { return nil }

func (*socket) read(*readBuffer) (waited bool, err error) { return false, nil }

func (*socket) write([]byte, *responsewriter.Timeout) error { return nil }
