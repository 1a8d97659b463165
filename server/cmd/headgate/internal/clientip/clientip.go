// Package clientip finds mistakes in the attribute ip of registered clients. A node may identify clients by the first
// bits of their address. A registered client then matches requests only if its ip is a network with that number of
// bits.
package clientip

import (
	"cmp"
	"net/netip"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/file/source"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
)

// PrefixLengths are the numbers of leading bits of an address that identify a client.
type PrefixLengths struct{ v4, v6 int }

// New returns the prefix lengths of a configuration.
func New(c *config.Config) PrefixLengths {
	return PrefixLengths{
		v4: cmp.Or(c.Identity.IPv4Prefix, identity.DefaultIPv4Prefix),
		v6: cmp.Or(c.Identity.IPv6Prefix, identity.DefaultIPv6Prefix),
	}
}

// Validate returns an error if the rules file has clients with an ip that no request can have. Without this check, a
// client that is blocked by a full address would not be blocked, if requests are identified by a network.
func (lengths PrefixLengths) Validate(name string, data []byte, doc *file.Document) error {
	var found []source.Problem
	for i := range doc.Clients {
		for _, t := range doc.Clients[i].Attributes {
			if t.Attribute.Kind != headgate.AttrIP {
				continue
			}
			for j, value := range t.Values {
				if want := lengths.suggest(value); want != "" {
					path := "clients[" + strconv.Itoa(i) + "].attributes.ip[" + strconv.Itoa(j) + "]"
					found = append(found, source.Problem{Path: path, Value: rules.Quote(value), Want: want})
				}
			}
		}
	}
	if found == nil {
		return nil
	}
	f, err := source.Read(name, data)
	if err != nil {
		return err
	}
	more := max(0, len(found)-rules.MaxProblems)
	found = found[:len(found)-more]
	for i := range found {
		found[i].Line, found[i].Column = f.Locate(found[i].Path)
	}
	return f.Error(found, more, rules.ErrInvalid)
}

// Warn returns a warning if a client of the rules service has an ip that no request can have, otherwise "". It is not
// an error, because other nodes may have other prefix lengths.
func (lengths PrefixLengths) Warn(c *rules.Client) string {
	for _, t := range c.Attributes {
		if t.Attribute.Kind != headgate.AttrIP {
			continue
		}
		for _, value := range t.Values {
			if want := lengths.suggest(value); want != "" {
				return "attributes.ip: " + rules.Quote(value) + ": want " + want
			}
		}
	}
	return ""
}

// suggest returns a description of valid values if value is an ip that no request can have, otherwise "".
func (lengths PrefixLengths) suggest(value string) string {
	list, err := identity.ParseNetworks(value)
	if err != nil || len(list) != 1 {
		return "" // refused when the rules were parsed
	}
	p := list[0]
	width, setting := lengths.v6, "identity.ipv6_prefix"
	if p.Addr().Is4() {
		width, setting = lengths.v4, "identity.ipv4_prefix"
	}
	switch {
	case p.Bits() == width:
		return ""
	case p.Bits() < width:
		return "an address of " + strconv.Itoa(width) + " bits (" + setting +
			"); for a network write a rule or an override with when: { ip: " + p.String() + " }"
	default:
		return netip.PrefixFrom(p.Addr(), width).Masked().String() + ": clients are identified by networks of " +
			strconv.Itoa(width) + " bits (" + setting + "); for one address write a rule or an override with when: { ip: " +
			value + " }"
	}
}
