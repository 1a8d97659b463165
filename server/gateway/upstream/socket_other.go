//go:build !unix

package upstream

import "net"

// A socket is used on Unix only.
type socket struct{}

func newSocket(net.Conn) *socket { return nil }

func (*socket) hasNothing() bool { return true }

func (*socket) sendAndWait(_, _ []byte) (sent, n int, err error) { return 0, 0, nil }
