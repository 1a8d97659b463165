package jwt_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/identity/jwt"
)

var secret = []byte("0123456789abcdef0123456789abcdef")

// issue signs a token, as a login service would.
func issue(claims string) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// The claims of a token become attributes, and its sub is the user.
func ExampleNew() {
	tokens, err := jwt.New(jwt.Config{Secret: secret, Issuer: "login"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tokens.Close()
	id, err := identity.New(identity.Config{Tokens: tokens})
	if err != nil {
		fmt.Println(err)
		return
	}

	var who identity.Attributes
	for _, issuer := range []string{"login", "someone else"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+issue(`{"iss":"`+issuer+`","sub":"alice","plan":"gold","exp":9999999999}`))
		id.Read(r, &who)
		user, _ := who.Get(headgate.Attribute{Kind: headgate.AttrUser})
		plan, _ := who.Get(headgate.Attribute{Kind: headgate.AttrJWT, Name: "plan"})
		fmt.Printf("user %q, plan %q, error %v\n", user, plan, who.TokenError())
	}
	// Output:
	// user "alice", plan "gold", error <nil>
	// user "", plan "", error token is from another issuer: "someone else"
}

// What makes no sense is refused.
func ExampleConfig_Validate() {
	fmt.Println(jwt.Config{JWKSURL: "https://login.example.com/jwks.json", Algorithms: []string{"HS256"}}.Validate())
	fmt.Println(jwt.Config{JWKSURL: "http://login.example.com/jwks.json"}.Validate())
	// Output:
	// jwt: algorithm HS256 with JWKSURL: published keys are not secret: want Secret or JWKSFile
	// jwt: JWKSURL "http://login.example.com/jwks.json": anyone on the network path could replace the keys: want https, or AllowHTTP
}
