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
	if c.trusts() {
		c.UserFrom = append(c.UserFrom, UserFromHeader)
	}
	return c
}

// Anybody can send a user's name with a wrong password, so it is not the user unless the config says so.
func TestBasicIsNoUserByDefault(t *testing.T) {
	for _, c := range []Config{{}, {Hops: 1}, {Tokens: tokens}} {
		if got := get(t, newID(t, c), request("10.0.0.1:1", "/", basic("alice:guess")), "user"); got != "-" {
			t.Errorf("user = %s by default, want none", got)
		}
		if got := get(t, newID(t, withBasic(c)), request("10.0.0.1:1", "/", basic("alice:guess")), "user"); got != "alice" {
			t.Errorf("user = %s with UserFromBasic, want alice", got)
		}
	}
}
