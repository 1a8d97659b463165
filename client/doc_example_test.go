package client_test

import (
	"context"

	"github.com/headgate/headgate/client"
)

// packageExample is the example of the package comment.
func packageExample(ctx context.Context, token string) error {
	c, err := client.New(client.Options{Address: "127.0.0.1:8082", Token: token})
	if err != nil {
		return err
	}
	defer c.Close()
	decision, err := c.RateLimit(ctx, client.Request{User: "alice", Attributes: map[string]string{"path": "/search"}})
	if err != nil || !decision.Passed {
		return err // or respond with 429
	}
	return nil
}

var _ = packageExample
