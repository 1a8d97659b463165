package identity_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
)

// show prints attributes by their names.
func show(who *identity.Attributes, names ...string) {
	for _, name := range names {
		attr, err := headgate.ParseAttribute(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		if value, ok := who.Get(attr); ok {
			fmt.Printf("%s = %s\n", name, value)
		} else {
			fmt.Printf("%s is missing\n", name)
		}
	}
}

// Behind a proxy, the client is the peer of the proxy, whatever the client itself claims.
func ExampleIdentifier_Read() {
	proxies, err := identity.ParseNetworks("10.0.0.0/8")
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := identity.New(identity.Config{TrustedProxies: proxies})
	if err != nil {
		fmt.Println(err)
		return
	}

	r := httptest.NewRequest(http.MethodGet, "http://API.example.com:8080/search/../v1//users/7", nil)
	r.RemoteAddr = "10.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "127.0.0.1, 203.0.113.9, 10.0.0.7") // the first is made up
	r.Header.Set("X-Plan", "gold")
	r.Header.Set("X-User-ID", "alice") // set by the proxy

	var who identity.Attributes
	id.Read(r, &who)
	if err := who.Validate(); err != nil {
		fmt.Println(err) // and answer 400
		return
	}
	show(&who, "ip", "user", "host", "path", "segment.3", "header.x-plan", "api_key")
	// Output:
	// ip = 203.0.113.9
	// user = alice
	// host = api.example.com
	// path = /v1/users/7
	// segment.3 = 7
	// header.x-plan = gold
	// api_key is missing
}

// What could be read in two ways is malformed.
func ExampleAttributes_Validate() {
	id, err := identity.New(identity.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var who identity.Attributes
	for _, target := range []string{"/files/a%2Fb", "/public/..;/admin"} {
		id.Read(httptest.NewRequest(http.MethodGet, target, nil), &who)
		fmt.Println(who.Validate())
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-API-Key", "one")
	r.Header.Set("Connection", "X-API-Key")
	id.Read(r, &who)
	fmt.Println(who.Validate())
	// Output:
	// malformed request: path "/files/a%2Fb": want no encoded slash or backslash, unless the configuration keeps or decodes them
	// malformed request: path "/public/..;/admin": want no semicolon, unless the configuration keeps parameters or cuts them off; %3B is none
	// malformed request: header Connection "X-Api-Key": want no header that identifies the client
}

// Someone else may say who is asking, as callers of the decision service do.
func ExampleIdentifier_ReadValues() {
	id, err := identity.New(identity.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var who identity.Attributes
	err = id.ReadValues(identity.Values{
		IP: "2001:db8:1:2:3::4", User: "alice",
		Attributes: map[string]string{"path": "/search", "header.X-Plan": "gold"},
	}, &who)
	if err != nil {
		fmt.Println(err)
		return
	}
	show(&who, "ip", "user", "path", "header.x-plan")
	fmt.Println(who.Addr())
	fmt.Println(id.ReadValues(identity.Values{IP: "example.com"}, &who))
	// Output:
	// ip = 2001:db8:1:2::/64
	// user = alice
	// path = /search
	// header.x-plan = gold
	// 2001:db8:1:2:3::4
	// invalid check: ip "example.com": want an address such as 192.0.2.1 or 2001:db8::1
}

// All ways to write a path are one, so that a rule cannot be passed by.
func ExampleCanonicalPath() {
	for _, path := range []string{"/%61dmin", "/public/../admin", "//admin", "/public/%2E%2e/admin", "/caf%c3%a9"} {
		canonical, err := identity.CanonicalPath(path, identity.PathRules{})
		fmt.Println(canonical, err)
	}
	kept, err := identity.CanonicalPath("/@scope%2fpackage", identity.PathRules{EncodedSlash: identity.KeepSlash})
	fmt.Println(kept, err)
	// Output:
	// /admin <nil>
	// /admin <nil>
	// /admin <nil>
	// /admin <nil>
	// /caf%C3%A9 <nil>
	// /@scope%2Fpackage <nil>
}

func ExampleConfig_Validate() {
	everybody, err := identity.ParseNetworks("0.0.0.0/0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(identity.Config{TrustedProxies: everybody}.Validate())
	fmt.Println(identity.Config{ForwardingHeader: "X-Real-IP"}.Validate())
	// Output:
	// identity: TrustedProxies: network 0.0.0.0/0 contains all addresses, so any client could choose its own: want the networks of the proxies, or Hops if they are not known
	// identity: ForwardingHeader "X-Real-IP": nobody is trusted to send it: want TrustedProxies or Hops
}
