package proxyproto_test

import (
	"net"
	"net/http"
	"net/netip"

	"github.com/headgate/headgate/identity/proxyproto"
)

// packageExample is the example of the package comment.
func packageExample(server *http.Server, balancers []netip.Prefix) error {
	inner, err := net.Listen("tcp", ":8080")
	if err != nil {
		return err
	}
	listener, err := proxyproto.NewListener(inner, proxyproto.Config{Trusted: balancers})
	if err != nil {
		return err
	}
	return server.Serve(listener)
}

var _ = packageExample
