package transport_test

import (
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/client/transport"
)

// packageExample is the example of the package comment.
func packageExample(store headgate.Limiter) (*http.Client, error) {
	t, err := transport.New(transport.Options{Limiter: store, Limit: headgate.PerSecond(10)})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: t}, nil
}

var _ = packageExample
