package identity

import "testing"

// withBasic returns the config with Basic before the other sources that it can have, unless it names its own.
func withBasic(c Config) Config {
	if c.UserFrom != nil {
		return c
	}
	c.UserFrom = []UserSource{UserFromBasic}
	if c.Tokens != nil {
		c.UserFrom = append(c.UserFrom, UserFromToken)
	}
	if c.trustsProxies() {
		c.UserFrom = append(c.UserFrom, UserFromHeader)
	}
	return c
}

// Anybody can send a user's name with a wrong password, so by default it is another user at each address.
func TestBasicIsAUserOfItsAddressByDefault(t *testing.T) {
	for _, c := range []Config{{}, {Hops: 1}, {Tokens: tokens}} {
		for remote, want := range map[string]string{
			"10.0.0.1:1": "alice from 10.0.0.1", "10.0.0.2:1": "alice from 10.0.0.2", "[2001:db8::1]:1": "alice from 2001:db8::/64", "@": "-",
		} {
			if got := get(t, newID(t, c), request(remote, "/", basic("alice:guess")), "user"); got != want {
				t.Errorf("user of %s = %s by default, want %s", remote, got, want)
			}
			if got := get(t, newID(t, c), request(remote, "/", basic(":guess")), "user"); got != "-" {
				t.Errorf("user without a name = %s, want none", got)
			}
		}
		if got := get(t, newID(t, withBasic(c)), request("10.0.0.1:1", "/", basic("alice:guess")), "user"); got != "alice" {
			t.Errorf("user = %s with UserFromBasic, want alice", got)
		}
	}
}
