package node

import (
	"cmp"
	"net/netip"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/source"
)

// widths are how many bits of an address tell clients apart.
type widths struct{ v4, v6 int }

func widthsOf(c *config.Config) widths {
	return widths{
		v4: cmp.Or(c.Identity.IPv4Prefix, identity.DefaultIPv4Prefix), v6: cmp.Or(c.Identity.IPv6Prefix, identity.DefaultIPv6Prefix),
	}
}

// refuses says which clients of a file nobody could be: clients are looked up by exact values, and no request has an ip of
// another width. One that is to be blocked must not pass because of that.
func (w widths) refuses(name string, data []byte, doc *file.Document) error {
	var found []source.Problem
	for i := range doc.Clients {
		for _, t := range doc.Clients[i].Attributes {
			if t.Attribute.Kind != headgate.AttrIP {
				continue
			}
			for j, value := range t.Values {
				if want := w.wants(value); want != "" {
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

// doubt says that nobody could be a client of a rules service. Other nodes may count in another way, so it is not refused.
func (w widths) doubt(c *rules.Client) string {
	for _, t := range c.Attributes {
		if t.Attribute.Kind != headgate.AttrIP {
			continue
		}
		for _, value := range t.Values {
			if want := w.wants(value); want != "" {
				return "attributes.ip: " + rules.Quote(value) + ": want " + want
			}
		}
	}
	return ""
}

// wants says what would be right in place of an ip that no request has, nothing if it is right.
func (w widths) wants(value string) string {
	list, err := identity.ParseNetworks(value)
	if err != nil || len(list) != 1 {
		return "" // rules have looked at it
	}
	p := list[0]
	width, setting := w.v6, "identity.ipv6_prefix"
	if p.Addr().Is4() {
		width, setting = w.v4, "identity.ipv4_prefix"
	}
	switch {
	case p.Bits() == width:
		return ""
	case p.Bits() < width:
		return "an address as clients are counted by, of " + strconv.Itoa(width) + " bits (" + setting +
			"); for a network write a rule or an override with when: { ip: " + p.String() + " }"
	default:
		return netip.PrefixFrom(p.Addr(), width).Masked().String() + ": clients are counted by networks of " +
			strconv.Itoa(width) + " bits (" + setting + "); for one address write a rule or an override with when: { ip: " + value + " }"
	}
}
