package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/headgate/headgate/control"
)

// A courier delivers webhooks. Deliveries are stored in the database. If the server stops, they are sent after its restart,
// or by another server with the same database.
type courier struct {
	server *Server
	owner  string // random ID of this server, to tell apart servers with the same database
	client *http.Client
	wake   chan struct{}

	mu        sync.Mutex
	announced map[string]announcement // by namespace: changes for which there are no deliveries yet
	queue     map[string]delivery     // by queueKey
	inFlight  map[string]bool         // by queueKey: the deliveries that are being sent
	sending   sync.WaitGroup
}

// An announcement is a change that webhooks must be notified of.
type announcement struct {
	revision int64
	time     time.Time
}

// announcedBucket is the bucket of states that has, for each webhook, the last revision with a delivery.
const announcedBucket = "announced"

// courierSweep is the interval between two calls of sweep.
const courierSweep = time.Minute

var errNotPublic = errors.New("not a public address, nor of a network that webhooks may be sent to")

func newCourier(s *Server) *courier {
	config := &s.config.Hooks
	dialer := &net.Dialer{Timeout: config.Timeout, Control: func(_, address string, _ syscall.RawConn) error {
		// Control runs after the DNS lookup, so a name cannot lead to a forbidden address.
		ap, err := netip.ParseAddrPort(address)
		if err != nil || !config.allows(ap.Addr()) {
			return fmt.Errorf("%s: %w", address, errNotPublic)
		}
		return nil
	}}
	return &courier{
		server: s, owner: randomID(), wake: make(chan struct{}, 1),
		announced: make(map[string]announcement), queue: make(map[string]delivery), inFlight: make(map[string]bool),
		client: &http.Client{
			Timeout:       config.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext: dialer.DialContext, TLSHandshakeTimeout: config.Timeout, ResponseHeaderTimeout: config.Timeout,
				MaxResponseHeaderBytes: 64 << 10, MaxIdleConns: 2 * config.Parallel, IdleConnTimeout: 30 * time.Second,
			},
		},
	}
}

// announce records that a namespace was changed. It does not wait for deliveries.
func (c *courier) announce(namespace string, revision int64, at time.Time) {
	c.mu.Lock()
	if revision > c.announced[namespace].revision {
		c.announced[namespace] = announcement{revision, at}
	}
	c.mu.Unlock()
	c.wakeUp()
}

// wakeUp makes run look at the queue now.
func (c *courier) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func queueKey(d *delivery) string {
	return hookName(d.Namespace, d.Webhook) + "/" + strconv.FormatInt(d.Revision, 10)
}

// push puts a delivery in the queue.
func (c *courier) push(d delivery) {
	c.mu.Lock()
	c.queue[queueKey(&d)] = d
	c.mu.Unlock()
	c.wakeUp()
}

// forget removes the deliveries of a webhook from the queue.
func (c *courier) forget(namespace, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, d := range c.queue {
		if d.Namespace == namespace && d.Webhook == id {
			delete(c.queue, key)
		}
	}
}

// forgetAll empties the queue. The next sweep fills it again from the database.
func (c *courier) forgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.queue)
	clear(c.announced)
}

// holds reports whether a delivery is in the queue or being sent.
func (c *courier) holds(d *delivery) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := queueKey(d)
	_, queued := c.queue[key]
	return queued || c.inFlight[key]
}

// run sends deliveries until the server is closed. Then it waits for the deliveries that are being sent.
func (c *courier) run() {
	ctx := c.server.ended
	defer c.sending.Wait()
	slots := make(chan struct{}, c.server.config.Hooks.Parallel)
	sweep := time.NewTicker(courierSweep)
	defer sweep.Stop()
	c.sweep(ctx)
	for ctx.Err() == nil {
		c.enqueue(ctx)
		wait := c.sendDue(ctx, slots)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-timer.C:
		case <-sweep.C:
			c.sweep(ctx)
		}
		timer.Stop()
	}
}

func (c *courier) close() { c.client.CloseIdleConnections() }

// logFault logs an error, unless there is none or ctx has ended.
func (c *courier) logFault(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		c.server.config.Logger.Warn("rules service: webhooks: "+what, "err", err.Error())
	}
}

// enqueue creates the deliveries of the announced changes.
func (c *courier) enqueue(ctx context.Context) {
	c.mu.Lock()
	announced := c.announced
	c.announced = make(map[string]announcement)
	c.mu.Unlock()
	for namespace, a := range announced {
		hooks, err := c.server.config.DB.List(ctx, control.Query{Namespace: namespace, Kind: control.KindWebhook, Limit: maxHooks})
		if err != nil {
			c.logFault(ctx, "cannot create deliveries, retrying at the next sweep", err)
			continue
		}
		for i := range hooks {
			if hooks[i].Revision < a.revision {
				c.logFault(ctx, "cannot create deliveries, retrying at the next sweep", c.begin(ctx, namespace, hooks[i].ID, a))
			}
		}
	}
}

// begin creates one delivery, stores it, and puts it in the queue.
func (c *courier) begin(ctx context.Context, namespace, id string, a announcement) error {
	now := c.server.config.Now().UTC()
	d := delivery{Revision: a.revision, Webhook: id, Namespace: namespace, Changed: a.time, State: pending, Next: now, Owner: c.owner}
	if err := c.save(ctx, &d); err != nil {
		return err
	}
	mark := control.State{
		Bucket: announcedBucket, ID: hookName(namespace, id), Body: []byte(strconv.FormatInt(a.revision, 10)), Expires: now.Add(10 * 366 * 24 * time.Hour),
	}
	if err := c.server.config.DB.PutState(ctx, mark); err != nil {
		return err
	}
	c.push(d)
	return c.trim(ctx, namespace, id)
}

// save stores the current state of a delivery.
func (c *courier) save(ctx context.Context, d *delivery) error {
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return c.server.config.DB.PutState(ctx, control.State{
		Bucket: bucket(d.Namespace, d.Webhook), ID: stateID(d.Revision), Body: body,
		Expires: c.server.config.Now().Add(c.server.config.Hooks.Keep),
	})
}

// trim deletes the oldest deliveries of a webhook that has more than maxDeliveries.
func (c *courier) trim(ctx context.Context, namespace, id string) error {
	list, err := c.server.deliveries(ctx, namespace, id, 0)
	if err != nil {
		return err
	}
	for i := range max(0, len(list)-maxDeliveries) {
		c.mu.Lock()
		delete(c.queue, queueKey(&list[i]))
		c.mu.Unlock()
		if err := c.drop(ctx, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// drop deletes a delivery from the database.
func (c *courier) drop(ctx context.Context, d *delivery) error {
	return ignoreNotFound(c.server.config.DB.DeleteState(ctx, bucket(d.Namespace, d.Webhook), stateID(d.Revision)))
}

// ignoreNotFound returns nil for control.ErrNotFound, and every other err as it is.
func ignoreNotFound(err error) error {
	if errors.Is(err, control.ErrNotFound) {
		return nil
	}
	return err
}

// dropAll deletes everything that is stored about a deleted webhook. A new webhook with the same ID starts without it.
func (c *courier) dropAll(ctx context.Context, namespace, id string) error {
	c.forget(namespace, id)
	errs := []error{ignoreNotFound(c.server.config.DB.DeleteState(ctx, announcedBucket, hookName(namespace, id)))}
	list, err := c.server.deliveries(ctx, namespace, id, 0)
	for i := range list {
		errs = append(errs, c.drop(ctx, &list[i]))
	}
	return errors.Join(append(errs, err)...)
}

// sweep takes over deliveries that other servers have left, and creates missing deliveries.
func (c *courier) sweep(ctx context.Context) {
	q := control.Query{Kind: control.KindWebhook, Limit: 1000}
	for {
		hooks, err := c.server.config.DB.List(ctx, q)
		if err != nil {
			c.logFault(ctx, "cannot look for unsent deliveries, retrying at the next sweep", err)
			return
		}
		for i := range hooks {
			c.logFault(ctx, "cannot look for unsent deliveries, retrying at the next sweep", c.sweepHook(ctx, &hooks[i]))
		}
		if len(hooks) < q.Limit {
			return
		}
		q.AfterNamespace, q.AfterID = hooks[len(hooks)-1].Namespace, hooks[len(hooks)-1].ID
	}
}

func (c *courier) sweepHook(ctx context.Context, hook *control.Object) error {
	list, err := c.server.deliveries(ctx, hook.Namespace, hook.ID, hook.Revision)
	if err != nil {
		return err
	}
	now := c.server.config.Now().UTC()
	grace := 2 * c.server.config.Hooks.Timeout // by then the owner would have sent it
	for _, d := range list {
		if d.State != pending || c.holds(&d) {
			continue
		}
		if d.Owner == c.owner { // its result could not be stored
			if d.Next.Add(grace).Before(now) {
				c.push(d)
			}
			continue
		}
		if d.Next = laterOf(d.Next.Add(grace), now); d.Next.After(now) {
			c.pushIfAbsent(d) // checked again when it is due
			continue
		}
		d.Owner = c.owner
		if err := c.save(ctx, &d); err != nil {
			return err
		}
		c.push(d)
	}
	return c.createMissing(ctx, hook, now.Add(-grace))
}

// pushIfAbsent puts a delivery of another server in the queue, unless it is already there.
func (c *courier) pushIfAbsent(d delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.queue[queueKey(&d)]; !there {
		c.queue[queueKey(&d)] = d
	}
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// createMissing creates the delivery of the latest change if it was made before the given time and has no delivery. This
// happens if a server stops between the change and its delivery.
func (c *courier) createMissing(ctx context.Context, hook *control.Object, before time.Time) error {
	db := c.server.config.DB
	_, revision, err := db.Revision(ctx, hook.Namespace)
	if err != nil {
		return err
	}
	delivered := hook.Revision
	state, err := db.GetState(ctx, announcedBucket, hookName(hook.Namespace, hook.ID))
	switch {
	case errors.Is(err, control.ErrNotFound):
	case err != nil:
		return err
	default:
		n, err := strconv.ParseInt(string(state.Body), 10, 64)
		if err != nil {
			return err
		}
		delivered = max(delivered, n)
	}
	if revision <= delivered {
		return nil
	}
	changes, err := db.Log(ctx, control.LogQuery{Namespace: hook.Namespace, After: revision - 1, Before: revision + 1, Limit: 1})
	if err != nil || len(changes) == 0 || changes[0].Time.After(before) {
		return err
	}
	return c.begin(ctx, hook.Namespace, hook.ID, announcement{revision, changes[0].Time})
}
