package identity

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

func TestAddressIsThatOfTheConnectionUnlessProxiesAreTrusted(t *testing.T) {
	id := newID(t, Config{})
	for _, tt := range []struct{ remote, want string }{
		{"203.0.113.9:4711", "203.0.113.9"},
		{"203.0.113.9", "203.0.113.9"}, // some middleware removes the port
		{"[2001:db8:1:2:3::4]:4711", "2001:db8:1:2::/64"},
		{"[2001:db8:1:2:ffff:ffff:ffff:ffff]:1", "2001:db8:1:2::/64"},
		{"2001:db8::1", "2001:db8::/64"},
		{"[::ffff:203.0.113.9]:4711", "203.0.113.9"},
		{"[::ffff:cb00:7109]:4711", "203.0.113.9"},
		{"[fe80::1%eth0]:4711", "fe80::/64"},
		{"[::1]:80", "::/64"},
		{"@", "-"}, // a socket of Unix
		{"", "-"},
		{"example.com:80", "-"},
		{"203.0.113.09:80", "-"},
	} {
		r := request(tt.remote, "/", "X-Forwarded-For: 198.51.100.7", "Forwarded: for=198.51.100.7",
			"X-Real-IP: 198.51.100.7", "X-Client-IP: 198.51.100.7", "CF-Connecting-IP: 198.51.100.7", "True-Client-IP: 198.51.100.7")
		if got := get(t, id, r, "ip"); got != tt.want {
			t.Errorf("%q: ip = %s, want %s", tt.remote, got, tt.want)
		}
	}
}

func TestPrefixesTellClientsApart(t *testing.T) {
	for _, tt := range []struct {
		v4, v6       int
		remote, want string
	}{
		{24, 0, "203.0.113.9:1", "203.0.113.0/24"},
		{24, 0, "[::ffff:203.0.113.9]:1", "203.0.113.0/24"}, // unmapped before it is masked
		{0, 48, "[2001:db8:1:2::3]:1", "2001:db8:1::/48"},
		{0, 56, "[2001:db8:1:2ff::3]:1", "2001:db8:1:200::/56"},
		{0, 128, "[2001:db8:1:2::3]:1", "2001:db8:1:2::3"},
		{0, 128, "[2001:DB8:0:0:0:0:0:3]:1", "2001:db8::3"},
		{1, 1, "203.0.113.9:1", "128.0.0.0/1"},
	} {
		id := newID(t, Config{IPv4Prefix: tt.v4, IPv6Prefix: tt.v6})
		for range 2 { // the second time it is remembered
			if got := get(t, id, request(tt.remote, "/"), "ip"); got != tt.want {
				t.Errorf("/%d /%d %s: ip = %s, want %s", tt.v4, tt.v6, tt.remote, got, tt.want)
			}
		}
	}
}

// forwardingCases are header sets as proxies send them, and as attackers make proxies send them.
var forwardingCases = []struct {
	name    string
	config  Config
	remote  string
	headers []string
	want    string
}{
	// X-Forwarded-For from trusted networks.
	{"nginx", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9", "X-Real-IP: 203.0.113.9"}, "203.0.113.9"},
	{"a CDN, a balancer and nginx", trusting("10.0.0.0/8,192.0.2.0/24"), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9, 192.0.2.4, 10.0.0.7"}, "203.0.113.9"},
	{"AWS ALB, appended to what a client made up", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 127.0.0.1, 10.0.0.99, 203.0.113.9"}, "203.0.113.9"},
	{"a spoof that looks like a trusted proxy stops at the client", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 198.51.100.1,10.0.0.2,203.0.113.9,10.0.0.3"}, "203.0.113.9"},
	{"Azure writes ports", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9:51234"}, "203.0.113.9"},
	{"IPv6", trusting("2001:db8::/32"), "[2001:db8::1]:5", []string{"X-Forwarded-For: 2600:1f18::1"}, "2600:1f18::/64"},
	{"IPv6 in brackets with a port", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: [2600:1f18::1]:443"}, "2600:1f18::/64"},
	{"IPv6 in brackets", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: [2600:1f18::1]"}, "2600:1f18::/64"},
	{"IPv6 with a zone", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: fe80::7%eth0"}, "fe80::/64"},
	{"a mapped proxy is the proxy", trusting("10.0.0.0/8"), "[::ffff:10.0.0.1]:5", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	{"a mapped proxy in the list", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9, ::ffff:10.0.0.2"}, "203.0.113.9"},
	{"a mapped client", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: ::ffff:203.0.113.9"}, "203.0.113.9"},
	{"a mapped client in hexadecimal", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: ::ffff:cb00:7109"}, "203.0.113.9"},
	{"a network given as mapped", trusting("::ffff:10.0.0.0/104"), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	{"repeated lines are one list", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 198.51.100.1", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 10.0.0.2"}, "203.0.113.9"},
	{"empty elements and lines do not count", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9, , ,", "X-Forwarded-For: ", "X-Forwarded-For: ,10.0.0.2,\t"}, "203.0.113.9"},
	{"all trusted: the leftmost", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 10.9.9.9, 10.0.0.2"}, "10.9.9.9"},
	{"no header: a proxy's own check", trusting("10.0.0.0/8"), "10.0.0.1:5", nil, "10.0.0.1"},
	{"not from a trusted proxy", trusting("10.0.0.0/8"), "203.0.113.9:5", []string{"X-Forwarded-For: 198.51.100.7"}, "203.0.113.9"},
	{"no address connected", trusting("10.0.0.0/8"), "@", []string{"X-Forwarded-For: 198.51.100.7"}, "-"},
	{"a proxy that hides its client counts as the client", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 198.51.100.7, unknown"}, "10.0.0.1"},
	{"garbage further left stands for nothing", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: <script>, 203.0.113.9"}, "203.0.113.9"},
	{"garbage between proxies ends the walk", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9, 10.0.0.300, 10.0.0.2"}, "10.0.0.2"},
	{"a name is no address", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: localhost"}, "10.0.0.1"},
	{"leading zeros are no address", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 010.0.0.1"}, "10.0.0.1"},
	{"a network is no address", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.0/24"}, "10.0.0.1"},
	{"bad ports are no ports", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9:http"}, "10.0.0.1"},
	{"nor are empty ones", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9:"}, "10.0.0.1"},
	{"quotes are for Forwarded", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{`X-Forwarded-For: "203.0.113.9"`}, "10.0.0.1"},
	{"spaces do not separate", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9 198.51.100.1"}, "10.0.0.1"},
	{"an endless element", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9," + strings.Repeat("1", 1<<20)}, "10.0.0.1"},
	{"more proxies than we look at", withMost(trusting("10.0.0.0/8"), 4), "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9, 10.0.0.6, 10.0.0.5, 10.0.0.4, 10.0.0.3"}, "10.0.0.6"},
	{"the other header is not read", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"Forwarded: for=198.51.100.7"}, "10.0.0.1"},
	{"look-alikes are not read", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"X_Forwarded_For: 198.51.100.7", "X-Forwarded-Fo: 198.51.100.7", "X-Forwarded: for=198.51.100.7"}, "10.0.0.1"},
	{"Connection does not remove what a proxy says", trusting("10.0.0.0/8"), "10.0.0.1:5", []string{"Connection: close, X-Forwarded-For", "X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},

	// Hops.
	{"one proxy", Config{Hops: 1}, "10.0.0.1:5", []string{"X-Forwarded-For: 198.51.100.1, 203.0.113.9"}, "203.0.113.9"},
	{"two proxies", Config{Hops: 2}, "10.0.0.1:5", []string{"X-Forwarded-For: 198.51.100.1, 203.0.113.9, 192.0.2.4"}, "203.0.113.9"},
	{"two proxies, two lines", Config{Hops: 2}, "10.0.0.1:5", []string{"X-Forwarded-For: 198.51.100.1, 203.0.113.9", "X-Forwarded-For: 192.0.2.4"}, "203.0.113.9"},
	{"fewer than that", Config{Hops: 3}, "10.0.0.1:5", []string{"X-Forwarded-For: 198.51.100.1, 203.0.113.9"}, "10.0.0.1"},
	{"empty elements are no hops", Config{Hops: 2}, "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9, , 192.0.2.4"}, "203.0.113.9"},
	{"the element is no address", Config{Hops: 1}, "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9, unknown"}, "10.0.0.1"},
	{"behind a socket of Unix", Config{Hops: 1}, "@", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	{"hops from a trusted proxy", Config{Hops: 1, TrustedProxies: prefixes("10.0.0.0/8")}, "10.0.0.1:5", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	{"hops from someone else", Config{Hops: 1, TrustedProxies: prefixes("10.0.0.0/8")}, "192.0.2.1:5", []string{"X-Forwarded-For: 203.0.113.9"}, "192.0.2.1"},
	{"hops in Forwarded", Config{Hops: 2, ForwardingHeader: "forwarded"}, "10.0.0.1:5", []string{`Forwarded: for=198.51.100.1, for="203.0.113.9:7", for=_x`}, "203.0.113.9"},

	// One address.
	{"Cloudflare", one("CF-Connecting-IP"), "10.0.0.1:5", []string{"CF-Connecting-IP: 203.0.113.9", "X-Forwarded-For: 198.51.100.7"}, "203.0.113.9"},
	{"with IPv6", one("CF-Connecting-IP"), "10.0.0.1:5", []string{"CF-Connecting-IP: 2600:1f18::1"}, "2600:1f18::/64"},
	{"not from it", one("CF-Connecting-IP"), "203.0.113.9:5", []string{"CF-Connecting-IP: 198.51.100.7"}, "203.0.113.9"},
	{"the same twice", one("X-Real-IP"), "10.0.0.1:5", []string{"X-Real-IP: 203.0.113.9", "X-Real-IP: 203.0.113.9"}, "203.0.113.9"},
	{"two that differ", one("X-Real-IP"), "10.0.0.1:5", []string{"X-Real-IP: 198.51.100.7", "X-Real-IP: 203.0.113.9"}, "10.0.0.1"},
	{"a list", one("X-Real-IP"), "10.0.0.1:5", []string{"X-Real-IP: 198.51.100.7, 203.0.113.9"}, "10.0.0.1"},
	{"none", one("X-Real-IP"), "10.0.0.1:5", nil, "10.0.0.1"},

	// Forwarded.
	{"RFC 7239 4", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: For="[2600:db8:cafe::17]:4711"`}, "2600:db8:cafe::/64"},
	{"with proto and by", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for=203.0.113.60;proto=http;by=203.0.113.43`}, "203.0.113.60"},
	{"in another order", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: proto=http; by=203.0.113.43 ;for="203.0.113.60"`}, "203.0.113.60"},
	{"two, a proxy last", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for=192.0.2.43, for=10.0.0.17`}, "192.0.2.43"},
	{"two lines", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for=192.0.2.43`, `Forwarded: for="10.0.0.17:80"`}, "192.0.2.43"},
	{"a comma in quotes", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for=203.0.113.9;host="a,b";secret="x, for=198.51.100.7"`}, "203.0.113.9"},
	{"escapes in quotes", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for=203.0.113.9;host="\", for=198.51.100.7;x=\""`}, "203.0.113.9"},
	{"an escaped backslash ends quotes", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for=198.51.100.7;x="\\", for=203.0.113.9`}, "203.0.113.9"},
	{"a hidden port", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for="203.0.113.9:_gazonk"`}, "203.0.113.9"},
	{"a hidden name", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for=198.51.100.7, for=_SEVKISEK`}, "10.0.0.1"},
	{"unknown", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for=198.51.100.7, for=unknown`}, "10.0.0.1"},
	{"without for", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for=198.51.100.7, proto=https`}, "10.0.0.1"},
	{"for twice", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for=198.51.100.7;for=203.0.113.9`}, "10.0.0.1"},
	{"a quote that never ends, by a client", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for="198.51.100.7, for=203.0.113.9`}, "203.0.113.9"},
	{"a quote that never begins", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for=198.51.100.7, for=203.0.113.9"`}, "10.0.0.1"},
	{"not a pair", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: 203.0.113.9`}, "10.0.0.1"},
	{"nothing for", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for=`}, "10.0.0.1"},
	{"text after quotes", by("Forwarded"), "10.0.0.1:5", []string{`Forwarded: for="203.0.113.9"x`}, "10.0.0.1"},
	{"X-Forwarded-For is not read then", by("Forwarded"), "10.0.0.1:5", []string{`X-Forwarded-For: 203.0.113.9`}, "10.0.0.1"},
}

func prefixes(text string) []netip.Prefix {
	n, err := ParseNetworks(text)
	if err != nil {
		panic(err)
	}
	return n
}

func trusting(text string) Config { return Config{TrustedProxies: prefixes(text)} }

func by(header string) Config {
	c := trusting("10.0.0.0/8")
	c.ForwardingHeader = header
	return c
}

func one(header string) Config { return by(header) }

func withMost(c Config, n int) Config { c.MaxForwarded = n; return c }

func TestClientBehindProxies(t *testing.T) {
	for _, tt := range forwardingCases {
		t.Run(tt.name, func(t *testing.T) {
			id := newID(t, tt.config)
			if got := get(t, id, request(tt.remote, "/", tt.headers...), "ip"); got != tt.want {
				t.Errorf("ip = %s, want %s", got, tt.want)
			}
		})
	}
}

// Whatever a client sends, the address that a proxy adds identifies it.
func TestNothingThatAClientSendsChangesHisAddress(t *testing.T) {
	pieces := []string{
		"198.51.100.7", "10.0.0.9", "for=198.51.100.7", `for="`, `"`, `\`, `\"`, ",", ", ", ";", "=", "[", "]", ":", "unknown", "_x", "\t", " ",
		"2001:db8::1", "for=10.0.0.9", strings.Repeat("9", 600), strings.Repeat(",", 40), "é", "%2C",
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		var sent []string
		for range r.IntN(4) {
			var line strings.Builder
			for range r.IntN(6) {
				line.WriteString(pieces[r.IntN(len(pieces))])
			}
			sent = append(sent, line.String())
		}
		for header, added := range map[string]string{"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9;proto=https"} {
			id := sharedID(t, header)
			lines := append([]string(nil), sent...)
			if len(lines) > 0 && r.IntN(2) == 0 { // a proxy adds to the last line, or a line
				lines[len(lines)-1] += ", " + added
			} else {
				lines = append(lines, added)
			}
			req := request("10.0.0.1:5", "/")
			req.Header[header] = lines
			if got := get(t, id, req, "ip"); got != "203.0.113.9" {
				t.Fatalf("%s: %q: ip = %s, want 203.0.113.9", header, lines, got)
			}
		}
	}
}

var sharedIDs = map[string]*Identifier{}

func sharedID(t testing.TB, header string) *Identifier {
	if sharedIDs[header] == nil {
		sharedIDs[header] = newID(t, by(header))
	}
	return sharedIDs[header]
}

func TestAddrIsTheWholeAddress(t *testing.T) {
	id := newID(t, trusting("10.0.0.0/8"))
	var a Attributes
	id.Read(request("10.0.0.1:5", "/", "X-Forwarded-For: 2001:db8::7"), &a)
	if got, want := a.Addr(), netip.MustParseAddr("2001:db8::7"); got != want {
		t.Errorf("Addr() = %v, want %v", got, want)
	}
	if got, want := a.Peer(), netip.MustParseAddr("10.0.0.1"); got != want {
		t.Errorf("Peer() = %v, want %v", got, want)
	}
	if !a.FromProxy() {
		t.Error("FromProxy() = false, want true")
	}
	id.Read(request("192.0.2.1:5", "/"), &a)
	if a.FromProxy() || a.Addr() != a.Peer() {
		t.Errorf("FromProxy() = %v, Addr() = %v, Peer() = %v, want false and the same", a.FromProxy(), a.Addr(), a.Peer())
	}
	a.Reset()
	if a.FromProxy() || a.Addr().IsValid() || a.Peer().IsValid() || a.Validate() != nil || a.TokenError() != nil || value(t, &a, "ip") != "-" {
		t.Error("attributes that were reset know something")
	}
}

func TestNetworksHaveWhatTheirPrefixesContain(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	random := func(v4 bool) netip.Addr {
		if v4 { // few bits, so that they overlap
			return netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(4)) << 6, byte(r.IntN(256))})
		}
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(r.IntN(4)), 15: byte(r.IntN(256))})
	}
	for range 300 {
		var list []netip.Prefix
		for range r.IntN(12) {
			a := random(r.IntN(2) == 0)
			p, err := a.Prefix(a.BitLen() - r.IntN(a.BitLen()))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, p)
		}
		set := newNetworks(list)
		for range 100 {
			a, want := random(r.IntN(2) == 0), false
			for _, p := range list {
				want = want || p.Contains(a)
			}
			if got := set.contains(a); got != want {
				t.Fatalf("%v: has(%v) = %v, want %v", list, a, got, want)
			}
		}
	}
}

func TestTextsOfNetworksAreThoseOfTheirOwn(t *testing.T) {
	id := newID(t, Config{})
	for range 2 {
		for i := range 3 * textSlots { // more than there is room for
			addr := fmt.Sprintf("2001:db8:%x:%x::1", i>>8, i&0xff)
			want := netip.MustParsePrefix(addr + "/64").Masked().String()
			if got := get(t, id, request("["+addr+"]:1", "/"), "ip"); got != want {
				t.Fatalf("%s: ip = %s, want %s", addr, got, want)
			}
		}
	}
}

func TestParseNetworks(t *testing.T) {
	got, err := ParseNetworks(" 10.0.0.0/8, 192.0.2.7,2001:db8::/32 , ::1,::ffff:10.1.0.0/112")
	if want := "[10.0.0.0/8 192.0.2.7/32 2001:db8::/32 ::1/128 10.1.0.0/16]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
	if got, err := ParseNetworks(" "); len(got) != 0 || err != nil {
		t.Errorf("nothing: got %v, %v, want nothing", got, err)
	}
	for text, want := range map[string]string{
		"10.0.0.1/8":         "network 10.0.0.1/8 has bits beyond its prefix: want 10.0.0.0/8",
		"10.0.0.0/8,,::1":    `networks "10.0.0.0/8,,::1": one is empty: want a list such as 10.0.0.0/8, 192.0.2.7`,
		"10.0.0.0/33":        `network "10.0.0.0/33": want an address or a network such as 10.0.0.0/8`,
		"private":            `network "private": want an address or a network such as 10.0.0.0/8`,
		"::ffff:10.0.0.0/95": "network ::ffff:10.0.0.0/95 has bits beyond its prefix: want ::fffe:0:0/95",
		"10.0.0.0/8 ::1/128": `network "10.0.0.0/8 ::1/128": want an address or a network such as 10.0.0.0/8`,
	} {
		if _, err := ParseNetworks(text); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}
