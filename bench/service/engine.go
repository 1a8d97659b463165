package service

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// eachUser returns an engine with a rule that allows each user the given number of decisions per second, and its store.
func eachUser(rate int64) (*memstore.Store, *engine.Engine, error) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, nil, err
	}
	set, err := match.Compile([]rules.Rule{
		{
			ID: "each-user", Key: []headgate.Attribute{{Kind: headgate.AttrUser}},
			Limits: []rules.Limit{{Limit: headgate.PerSecond(rate)}},
		},
	})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, e, nil
}

// A decisionServer is the server of one protocol.
type decisionServer interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

// serveDecisions runs a server. It returns a function that stops the server and closes its store.
func serveDecisions(l net.Listener, s decisionServer, store *memstore.Store) (end func() error) {
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return errors.Join(s.Shutdown(ctx), <-served, store.Close())
	}
}
