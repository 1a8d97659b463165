package jwt

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
)

// checkUser asks for the attributes user and jwt.sub of a request with the token, "-" if there is none.
func checkUser(t *testing.T, id *identity.Identifier, token, user, sub string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	var a identity.Attributes
	id.Read(r, &a)
	for attr, want := range map[headgate.Attribute]string{
		{Kind: headgate.AttrUser}:             user,
		{Kind: headgate.AttrJWT, Name: "sub"}: sub,
	} {
		got, ok := a.Get(attr)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("%v = %s, want %s", attr, got, want)
		}
	}
}
