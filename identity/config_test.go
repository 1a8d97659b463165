package identity

import (
	"net/netip"
	"strings"
	"testing"
)

func TestConfigIsRefusedWithWhatWouldBeRight(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, tt := range []struct {
		config Config
		want   []string
	}{
		{Config{TrustedProxies: []netip.Prefix{{}}}, []string{"TrustedProxies", "10.0.0.0/8"}},
		{Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")}}, []string{"want 10.0.0.0/8"}},
		{Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, []string{"all addresses", "Hops"}},
		{Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("::/0")}}, []string{"all addresses", "Hops"}},
		{Config{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("::ffff:0:0/96")}}, []string{"all addresses", "Hops"}},
		{Config{Hops: -1}, []string{"Hops -1", "0 to 32"}},
		{Config{Hops: 33}, []string{"Hops 33", "0 to 32"}},
		{Config{ForwardingHeader: "Forwarded"}, []string{"nobody is trusted", "TrustedProxies or Hops"}},
		{Config{ForwardingHeader: "X-Real-IP", Hops: 1}, []string{"one address", "Hops 1"}},
		{Config{ForwardingHeader: "Cookie", TrustedProxies: proxies}, []string{"Cookie", "address"}},
		{Config{ForwardingHeader: "X Real", TrustedProxies: proxies}, []string{"X Real", "name of a header"}},
		{Config{APIKeyHeader: "X-Key:"}, []string{"APIKeyHeader", "X-Key:"}},
		{Config{UserHeader: "Ünser"}, []string{"UserHeader"}},
		{Config{IPv4Prefix: 33}, []string{"IPv4Prefix 33", "1 to 32"}},
		{Config{IPv6Prefix: -1}, []string{"IPv6Prefix -1", "1 to 128"}},
		{Config{MaxValue: 1}, []string{"MaxValue 1", "16 to 65536"}},
		{Config{MaxForwarded: 2000}, []string{"MaxForwarded 2000"}},
		{Config{MaxCookies: -5}, []string{"MaxCookies -5"}},
		{Config{MaxQuery: 1 << 30}, []string{"MaxQuery"}},
		{Config{MaxPath: 1}, []string{"MaxPath 1"}},
		{Config{Secret: []byte("short")}, []string{"Secret of 5 bytes", "16"}},
		{Config{UserFrom: []UserSource{9}}, []string{"UserFrom 9"}},
		{Config{UserFrom: []UserSource{UserFromBasic, UserFromBasic}}, []string{"basic twice"}},
		{Config{UserFrom: []UserSource{UserFromHeader}}, []string{"X-User-ID", "TrustedProxies or Hops"}},
		{Config{UserFrom: []UserSource{UserFromToken}}, []string{"Tokens"}},
		{Config{Paths: PathRules{EncodedSlash: 7}}, []string{"EncodedSlash 7", "KeepSlash"}},
	} {
		err := tt.config.Validate()
		if err == nil {
			t.Errorf("%+v: no error, want %q in one", tt.config, tt.want)
			continue
		}
		for _, want := range append(tt.want, "identity: ") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q, want %q in it", err, want)
			}
		}
		if _, again := New(tt.config); again == nil || again.Error() != err.Error() {
			t.Errorf("New: error %v, want that of Validate: %v", again, err)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero Config: %v", err)
	}
}

func TestSecretsByChanceDiffer(t *testing.T) {
	a, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if a.BearerHash("x") == b.BearerHash("x") {
		t.Error("two identifiers without a secret hash alike")
	}
}

func TestTrusts(t *testing.T) {
	id := newID(t, trusting("10.0.0.0/8"))
	for text, want := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "11.0.0.0": false, "9.255.255.255": false, "::1": false} {
		if got := id.Trusts(netip.MustParseAddr(text)); got != want {
			t.Errorf("Trusts(%s) = %v, want %v", text, got, want)
		}
	}
	if id.Trusts(netip.Addr{}) {
		t.Error("nobody is trusted")
	}
}
