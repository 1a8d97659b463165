//go:build !race

package identity

import (
	"testing"

	"github.com/headgate/headgate"
)

func TestWhatIsThereAllocatesNothing(t *testing.T) {
	id := newID(t, Config{TrustedProxies: nets(t, "10.0.0.0/8, 192.0.2.0/24, 2001:db8::/32"), Tokens: tokens, Region: "eu", Namespace: "shop", UserFrom: []UserSource{UserFromToken}, Paths: PathRules{Parameters: KeepParameters}})
	six := newID(t, Config{})
	headers := []string{
		"X-Forwarded-For: 203.0.113.9, 192.0.2.4, 10.0.0.7", "X-Plan: gold", "X-API-Key: k1", "Cookie: a=b; session=1; c=d", "Connection: keep-alive",
		"Authorization: Bearer good",
	}
	r := request("10.0.0.1:4711", "http://api.example.com/search/.x/a;v=1?a=b&q=1", headers...)
	r6 := request("[2600:1f18::1]:4711", "/")
	for _, name := range []string{
		"ip", "method", "host", "path", "segment.2", "header.x-plan", "api_key", "cookie.session", "query.q", "region", "namespace", "jwt.tenant", "user", "descriptor.x",
		"header.none", "cookie.none", "query.none",
	} {
		var a Attributes
		asked := attr(t, name)
		read := func() {
			id.Read(r, &a)
			if err := a.Validate(); err != nil {
				t.Error(err)
			}
			sink, _ = a.Get(asked)
		}
		read()
		if got := testing.AllocsPerRun(100, read); got != 0 {
			t.Errorf("%s allocates %v times, want 0", name, got)
		}
	}
	var a Attributes
	ip := headgate.Attribute{Kind: headgate.AttrIP}
	if got := testing.AllocsPerRun(100, func() { six.Read(r6, &a); sink, _ = a.Get(ip) }); got != 0 {
		t.Errorf("an address of IPv6 that was seen before allocates %v times, want 0", got)
	}
	forwarded := newID(t, by("Forwarded"))
	rf := request("10.0.0.1:4711", "/", `Forwarded: for=1.2.3.4, for="203.0.113.9:80";proto=https;by="[2001:db8::1]"`)
	if got := testing.AllocsPerRun(100, func() { forwarded.Read(rf, &a); sink, _ = a.Get(ip) }); got != 0 {
		t.Errorf("Forwarded allocates %v times, want 0", got)
	}
}

func TestBearerAndBasicAllocateTheirValueOnly(t *testing.T) {
	id := newID(t, withBasic(Config{}))
	for name, header := range map[string]string{"bearer": "Authorization: Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl", "user": basic("alice:secret")} {
		r, asked := request("192.0.2.1:1", "/", header), attr(t, name)
		var a Attributes
		if got := testing.AllocsPerRun(100, func() { id.Read(r, &a); sink, _ = a.Get(asked) }); got > 1 {
			t.Errorf("%s allocates %v times, want 1", name, got)
		}
	}
}

func TestValuesAllocateNothingThatTheyNeedNot(t *testing.T) {
	id := newID(t, Config{})
	v := Values{
		IP: "203.0.113.9", User: "alice", APIKey: "k1", Attributes: map[string]string{"header.x-plan": "gold", "path": "/search"},
		Descriptors: []DescriptorEntry{{"generic_key", "a"}},
	}
	var a Attributes
	plan := attr(t, "header.x-plan")
	read := func() {
		if err := id.ReadValues(v, &a); err != nil {
			t.Error(err)
		}
		sink, _ = a.Get(plan)
	}
	read()
	if got := testing.AllocsPerRun(100, read); got != 0 {
		t.Errorf("allocates %v times, want 0", got)
	}
}
