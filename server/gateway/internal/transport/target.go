package transport

import (
	"errors"
	"net"
	"net/url"

	"github.com/headgate/headgate/identity"
)

// A Target is the address of an upstream and the protocol that it uses.
type Target struct {
	Network string // tcp or unix
	Address string // address to dial
	Host    string // the default Host header
	Name    string // the host name that the certificate must have
	TLS     bool
	HTTP2   bool
}

var errTarget = errors.New("http://host:port, https://host:port, h2c://host:port, h2://host:port, unix:/path or " +
	"unix+h2c:/path, without a path on the server, a query or a user")

// ParseTarget parses the URL of an upstream. The error says which URLs are valid.
func ParseTarget(text string) (Target, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Target{}, errTarget
	}
	if u.Scheme == "unix" || u.Scheme == "unix+h2c" {
		if u.Host != "" || len(u.Path) < 2 || u.RawQuery != "" || u.Fragment != "" {
			return Target{}, errTarget
		}
		return Target{Network: "unix", Address: u.Path, Host: "localhost", HTTP2: u.Scheme == "unix+h2c"}, nil
	}
	t := Target{Network: "tcp", Host: u.Host, Name: u.Hostname()}
	port := "80"
	switch u.Scheme {
	case "http":
	case "h2c":
		t.HTTP2 = true
	case "https":
		t.TLS, port = true, "443"
	case "h2":
		t.TLS, t.HTTP2, port = true, true, "443"
	default:
		return Target{}, errTarget
	}
	if _, err := identity.CanonicalHost(u.Host); err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Path != "" && u.Path != "/" {
		return Target{}, errTarget
	}
	if p := u.Port(); p != "" {
		port = p
	}
	t.Address = net.JoinHostPort(t.Name, port)
	return t, nil
}
