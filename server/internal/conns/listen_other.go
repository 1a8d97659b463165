//go:build !linux

package conns

import "net"

var listenConfig net.ListenConfig
