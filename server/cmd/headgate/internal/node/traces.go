package node

import (
	"context"
	"fmt"

	"github.com/headgate/headgate/server/telemetry/traces"
)

// openTraces starts to trace requests if the settings or the environment name a receiver of traces.
func (n *Node) openTraces(ctx context.Context) error {
	options := n.config.TraceOptions()
	if options == nil {
		return nil
	}
	options.Version, options.Node, options.Region = n.options.Version, n.id, n.config.Region
	options.Logger = n.log
	var err error
	if n.tracer, err = traces.Open(ctx, *options); err != nil {
		return fmt.Errorf("%s: %w", n.config.Origin("traces"), err)
	}
	return nil
}

// closeTraces exports the last spans. It only logs if the receiver is unreachable.
func (n *Node) closeTraces() {
	if err := n.tracer.Close(); err != nil {
		n.log.Warn("last traces not exported", "err", err.Error())
	}
}
