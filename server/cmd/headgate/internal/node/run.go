package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/internal/watch"
	"github.com/headgate/headgate/server/telemetry"
)

// Run serves until ctx ends or a server fails. Then it lets current requests finish and closes everything.
func (n *Node) Run(ctx context.Context) error {
	heap := ballast()
	defer runtime.KeepAlive(heap)
	serving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// The servers in backends stop last: while the gateway drains, it needs the demo upstream, and operators need the
	// admin listener.
	var group, backends sync.WaitGroup
	for _, s := range []*server{n.admin, n.demo} {
		if s != nil {
			backends.Go(func() {
				if err := s.serve(); err != nil {
					stop(err)
				}
			})
		}
	}
	if n.gateway != nil {
		group.Go(func() {
			if err := n.gateway.Serve(serving); err != nil && serving.Err() == nil {
				stop(fmt.Errorf("gateway: %w", err))
			} else if err != nil {
				n.log.Warn("drain incomplete", "listener", "gateway", "err", err.Error())
			}
		})
	}
	n.serveDecisionService(serving, &group, stop)
	n.maintainRules(serving, &group)
	if n.fileRules != nil {
		group.Go(func() {
			if err := watch.File(serving, n.config.Rules, watch.Options{Logger: n.log}, n.fileRules.reload); err != nil {
				n.log.Error("rules file not watched", "err", err.Error())
			}
		})
	}
	if n.stores.Shared() {
		group.Go(func() { n.stores.WatchServers(serving) })
		group.Go(func() { n.reportStoreChanges(serving) })
	}
	group.Go(func() { n.enforcement.run(serving) })
	group.Go(func() { n.overload.Run(serving) })
	group.Go(func() { n.reloadOnDemand(serving) })
	group.Go(func() { n.recordDecisions(serving) })
	if n.demoTraffic != nil {
		group.Go(func() { n.demoTraffic.Run(serving) })
	}
	group.Go(func() { watchProxies(serving, n.identity, n.log) })
	drainCtx, endDrain := context.WithCancel(context.WithoutCancel(ctx))
	defer endDrain()
	backends.Go(func() { watchMemory(drainCtx, n.stores.Memory.Stats, n.log) }) // until the last request is decided

	n.waitForGateway(serving)
	n.state.Store(telemetry.Ready)
	n.announce()
	<-serving.Done()
	n.state.Store(telemetry.Draining)
	n.log.Info("draining")
	n.drainDecisionService()
	group.Wait()
	stopErr := n.rulesService.stop()
	for _, s := range []*server{n.demo, n.admin} {
		if s != nil {
			s.shutdown()
		}
	}
	endDrain()
	backends.Wait()
	err := errors.Join(stopErr, n.close())
	if cause := context.Cause(serving); ctx.Err() == nil && cause != nil {
		err = errors.Join(cause, err)
	}
	if err == nil {
		n.log.Info("stopped")
	}
	return err
}

// waitForGateway returns when the gateway accepts connections, so that its address is announced only then.
func (n *Node) waitForGateway(ctx context.Context) {
	if n.gateway == nil {
		return
	}
	select {
	case <-n.gateway.Started():
	case <-ctx.Done():
	}
}

// maintainRules starts the goroutines that keep the rules and the admin certificates current until ctx ends.
func (n *Node) maintainRules(ctx context.Context, group *sync.WaitGroup) {
	if n.admin != nil && n.admin.certificates != nil {
		group.Go(func() { n.admin.certificates.Watch(ctx, n.admin.checkEvery, n.log.With("listener", "admin")) })
	}
	if n.followedRules == nil { // the rules come from a file
		if n.rulesService.api.Load() != nil {
			group.Go(func() { n.heartbeatLoop(ctx) })
		}
		return
	}
	group.Go(func() { n.followedRules.follower.Run(ctx) })
	if n.config.RulesSource() == config.FromControl {
		return // the remote rules service has the database: no mirror and no history here
	}
	group.Go(func() {
		if n.rulesService.deferred != nil && !n.retryDatabase(ctx) {
			return // ctx ended before the database could be opened
		}
		var mirroring sync.WaitGroup
		if m := n.followedRules.mirror.Load(); m != nil {
			mirroring.Go(func() { m.watch(ctx) })
		}
		n.pruneHistory(ctx)
		mirroring.Wait()
	})
}

// Reload triggers a reload of the rules and certificates, and does not wait for it.
func (n *Node) Reload() {
	select {
	case n.reloads <- struct{}{}:
	default: // a reload is pending already
	}
}

func (n *Node) reloadOnDemand(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.reloads:
			if n.fileRules != nil {
				n.fileRules.reload()
			} else {
				n.followedRules.reload()
			}
			if n.admin != nil {
				n.admin.reload(n.log)
			}
			if n.gateway != nil {
				_ = n.gateway.Reload() // it logs its error
			}
			n.reloadDecisionService()
		}
	}
}

const ballastBytes = 32 << 20

// ballast returns memory that is never touched and so uses no physical memory. The garbage collector runs when the heap
// has doubled; a heap of a few megabytes would be collected many times per second. The ballast makes the heap look
// larger. It returns nil if GOGC is set.
func ballast() []byte {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return make([]byte, ballastBytes)
}
