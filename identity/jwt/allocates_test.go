//go:build !race

package jwt

import "testing"

func TestATokenThatWasSeenAllocatesNothing(t *testing.T) {
	v, token := verifier(t, Config{Issuer: "https://login.example", Audience: []string{"api"}}), theIssuer().token("RS256")
	claim(t, v, token, "sub")
	if got := testing.AllocsPerRun(100, func() {
		c, err := v.Verify(token)
		if err != nil {
			t.Error(err)
			return
		}
		if sub, _ := c.Claim("sub"); sub != "alice" {
			t.Errorf("sub = %s, want alice", sub)
		}
	}); got != 0 {
		t.Errorf("allocates %v times, want 0", got)
	}
}
