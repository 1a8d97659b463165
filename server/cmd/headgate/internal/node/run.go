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

// Run serves until ctx ends or a server fails. Then it waits for current requests and closes the node.
func (n *Node) Run(ctx context.Context) error {
	heap := ballast()
	defer runtime.KeepAlive(heap)
	serveCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// tasks end with serveCtx. lastTasks end after the last request: while the gateway drains, it needs the demo upstream,
	// and operators need the admin listener.
	var tasks, lastTasks sync.WaitGroup
	for _, s := range []*server{n.admin, n.demo} {
		if s != nil {
			lastTasks.Go(func() {
				if err := s.serve(); err != nil {
					stop(err)
				}
			})
		}
	}
	if n.gateway != nil {
		tasks.Go(func() {
			if err := n.gateway.Serve(serveCtx); err != nil && serveCtx.Err() == nil {
				stop(fmt.Errorf("gateway: %w", err))
			} else if err != nil {
				n.log.Warn("drain incomplete", "listener", "gateway", "err", err.Error())
			}
		})
	}
	n.serveDecisionService(serveCtx, &tasks, stop)
	n.maintainRules(serveCtx, &tasks)
	n.startBackgroundTasks(serveCtx, &tasks)
	drainCtx, endDrain := context.WithCancel(context.WithoutCancel(ctx))
	defer endDrain()
	lastTasks.Go(func() { watchMemory(drainCtx, n.stores.Memory.Stats, n.log) }) // requests use the store while draining

	n.waitForGateway(serveCtx)
	n.state.Store(telemetry.Ready)
	n.announce()
	<-serveCtx.Done()
	n.state.Store(telemetry.Draining)
	n.log.Info("draining")
	n.drainDecisionService()
	tasks.Wait()
	stopErr := n.rulesService.stop()
	for _, s := range []*server{n.demo, n.admin} {
		if s != nil {
			s.shutdown()
		}
	}
	endDrain()
	lastTasks.Wait()
	err := errors.Join(stopErr, n.close())
	if cause := context.Cause(serveCtx); ctx.Err() == nil && cause != nil {
		err = errors.Join(cause, err)
	}
	if err == nil {
		n.log.Info("stopped")
	}
	return err
}

// startBackgroundTasks starts the goroutines that serve no requests and do not maintain the rules.
func (n *Node) startBackgroundTasks(ctx context.Context, tasks *sync.WaitGroup) {
	run := func(task func(context.Context)) { tasks.Go(func() { task(ctx) }) }
	run(n.enforcement.run)
	run(n.overload.Run)
	run(n.reloadOnDemand)
	run(n.recordDecisions)
	run(func(ctx context.Context) { watchProxies(ctx, n.identity, n.log) })
	if n.stores.Shared() {
		run(n.stores.WatchServers)
		run(n.reportChanges)
	}
	if n.demoTraffic != nil {
		run(n.demoTraffic.Run)
	}
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
func (n *Node) maintainRules(ctx context.Context, tasks *sync.WaitGroup) {
	if n.admin != nil && n.admin.certificates != nil {
		tasks.Go(func() { n.admin.certificates.Watch(ctx, n.admin.checkEvery, n.log.With("listener", "admin")) })
	}
	if n.followedRules == nil { // the rules come from a file
		tasks.Go(func() {
			if err := watch.File(ctx, n.config.Rules, watch.Options{Logger: n.log}, n.fileRules.reload); err != nil {
				n.log.Error("rules file not watched", "err", err.Error())
			}
		})
		if n.rulesService.api.Load() != nil {
			tasks.Go(func() { n.heartbeatLoop(ctx) })
		}
		return
	}
	tasks.Go(func() { n.followedRules.follower.Run(ctx) })
	if n.config.RulesSource() == config.FromControl {
		return // the remote rules service keeps the database and its history
	}
	tasks.Go(func() {
		if n.rulesService.deferred != nil && !n.retryDatabase(ctx) {
			return // ctx ended before the database could be opened
		}
		var mirrorTask sync.WaitGroup
		if m := n.followedRules.mirror.Load(); m != nil { // the database is a copy of the rules file
			mirrorTask.Go(func() { m.watch(ctx) })
		}
		n.pruneHistory(ctx)
		mirrorTask.Wait()
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

// ballast returns memory that only makes the heap larger. It is never written, so it uses no physical memory. The
// garbage collector runs when the heap has doubled. Without the ballast, a heap of a few megabytes would be collected
// many times per second. ballast returns nil if GOGC is set.
func ballast() []byte {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return make([]byte, ballastBytes)
}
