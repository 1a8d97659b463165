package conns

import (
	"errors"
	"net"
	"strings"
	"syscall"
)

// listenConfig sets options for keep-alive probes on the listening socket. They are the same as those of package net.
// Connections inherit them from the listening socket. Package net would need four system calls for each connection.
var listenConfig = net.ListenConfig{KeepAlive: -1, Control: enableKeepAlive}

func enableKeepAlive(network, _ string, socket syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	const seconds, probes = 15, 9 // as in package net
	var err error
	failed := socket.Control(func(fd uintptr) {
		err = errors.Join(
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, seconds),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, seconds),
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, probes),
		)
	})
	return errors.Join(failed, err)
}
