// Package clientip finds registered clients whose address no request can have.
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

// PrefixLengths are the numbers of address bits that identify a client.
type PrefixLengths struct{ v4, v6 int }

// New returns the prefix lengths of a configuration.
func New(c *config.Config) PrefixLengths {
	return PrefixLengths{
		v4: cmp.Or(c.Identity.IPv4Prefix, identity.DefaultIPv4Prefix),
		v6: cmp.Or(c.Identity.IPv6Prefix, identity.DefaultIPv6Prefix),
	}
}

// Validate returns an error for registered clients with an ip that no request can have. Clients are looked up by exact
// values, and the ip of a request always has the configured prefix length. Without this check, a blocked client with
// another length would pass.
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

// Warn returns a warning if a client of the rules service has an ip that no request can have, or "". It is no error,
// because other nodes may have other prefix lengths.
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

// suggest returns what to write instead of an ip that no request can have, or "" if requests can have it.
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
