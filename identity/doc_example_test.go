package identity_test

import (
	"fmt"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
)

// packageExample is the example of the package comment.
func packageExample(r *http.Request) error {
	id, err := identity.New(identity.Config{}) // set TrustedProxies behind a proxy
	if err != nil {
		return err
	}
	var who identity.Attributes // reuse it for the next request
	id.Read(r, &who)
	if err := who.Validate(); err != nil {
		return err // respond with 400
	}
	fmt.Println(who.Get(headgate.Attribute{Kind: headgate.AttrIP}))
	return nil
}

var _ = packageExample
