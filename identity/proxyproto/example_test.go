package proxyproto_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/headgate/headgate/identity/proxyproto"
)

func ExampleNewListener() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err = proxyproto.NewListener(listener, proxyproto.Config{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = listener.Close() }()

	// A load balancer passes on the connection of a client.
	balancer, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = balancer.Close() }()
	if _, err := io.WriteString(balancer, "PROXY TCP4 203.0.113.9 192.0.2.1 4711 443\r\n"); err != nil {
		fmt.Println(err)
		return
	}

	conn, err := listener.Accept() // http.Server does this
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	fmt.Println(conn.RemoteAddr())
	// Output:
	// 203.0.113.9:4711
}
