package engine_test

import (
	"context"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// packageExample is the example of the package comment.
func packageExample(ctx context.Context, store headgate.Limiter, set *match.Set, subject rules.Subject, responseHeader http.Header, serve func()) error {
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		return err
	}
	var v engine.Verdict // reuse it for the next request
	if err := e.Decide(ctx, subject, &v); err != nil || !v.Action.Passes() {
		return err // or respond with v.Status, or close the connection if v.Action is Drop
	}
	serve()
	return v.Settle(ctx, responseHeader.Get)
}

var _ = packageExample
