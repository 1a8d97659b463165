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

// A courier delivers webhooks. What is to be delivered is kept in the database, so that it is delivered even if the server
// ends: by this one when it is back, or by another that shares the database.
type courier struct {
	server *Server
	owner  string // this server, among those that share the database
	client *http.Client
	wake   chan struct{}

	mu        sync.Mutex
	announced map[string]announcement // by namespace, what nobody has been told of yet
	queue     map[string]delivery     // by webhook and revision
	under     map[string]bool         // those that are being sent
	sending   sync.WaitGroup
}

// An announcement is a change to tell of.
type announcement struct {
	revision int64
	time     time.Time
}

// announcedBucket is where it is kept which change a webhook was last told of.
const announcedBucket = "announced"

// courierSweep is how often a courier looks for what another has left.
const courierSweep = time.Minute

var errNotPublic = errors.New("not a public address, nor of a network that webhooks may be sent to")

func newCourier(s *Server) *courier {
	config := &s.config.Hooks
	dialer := &net.Dialer{Timeout: config.Timeout, Control: func(_, address string, _ syscall.RawConn) error {
		// Here names have been looked up, so that none leads to where an address may not.
		ap, err := netip.ParseAddrPort(address)
		if err != nil || !config.allows(ap.Addr()) {
			return fmt.Errorf("%s: %w", address, errNotPublic)
		}
		return nil
	}}
	return &courier{
		server: s, owner: cryptorand(), wake: make(chan struct{}, 1),
		announced: make(map[string]announcement), queue: make(map[string]delivery), under: make(map[string]bool),
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

// announce says that a namespace was changed. It does not wait.
func (c *courier) announce(namespace string, revision int64, at time.Time) {
	c.mu.Lock()
	if revision > c.announced[namespace].revision {
		c.announced[namespace] = announcement{revision, at}
	}
	c.mu.Unlock()
	c.stir()
}

func (c *courier) stir() {
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
	c.stir()
}

// forget takes the deliveries of a webhook from the queue.
func (c *courier) forget(namespace, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, d := range c.queue {
		if d.Namespace == namespace && d.Webhook == id {
			delete(c.queue, key)
		}
	}
}

// forgetAll takes everything from the queue: what is to be delivered is looked for anew.
func (c *courier) forgetAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.queue)
	clear(c.announced)
}

// holds tells whether a delivery is in the queue, or being sent.
func (c *courier) holds(d *delivery) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := queueKey(d)
	_, queued := c.queue[key]
	return queued || c.under[key]
}

// run delivers until the server is closed, and waits for what is being sent.
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

// fault tells the log.
func (c *courier) fault(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		c.server.config.Logger.Warn("rules service: webhooks: "+what, "err", err.Error())
	}
}

// enqueue makes deliveries of what was announced.
func (c *courier) enqueue(ctx context.Context) {
	c.mu.Lock()
	announced := c.announced
	c.announced = make(map[string]announcement)
	c.mu.Unlock()
	for namespace, a := range announced {
		hooks, err := c.server.config.DB.List(ctx, control.Query{Namespace: namespace, Kind: control.KindWebhook, Limit: maxHooks})
		if err != nil {
			c.fault(ctx, "a change is told of later", err) // by a sweep
			continue
		}
		for i := range hooks {
			if hooks[i].Revision < a.revision {
				c.fault(ctx, "a change is told of later", c.begin(ctx, namespace, hooks[i].ID, a))
			}
		}
	}
}

// begin makes one delivery.
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

// save keeps a delivery as it is now.
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

// trim forgets the earliest deliveries of a webhook that has too many.
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

// drop forgets a delivery.
func (c *courier) drop(ctx context.Context, d *delivery) error {
	return gone(c.server.config.DB.DeleteState(ctx, bucket(d.Namespace, d.Webhook), stateID(d.Revision)))
}

// gone is no error for what was not there to be deleted.
func gone(err error) error {
	if errors.Is(err, control.ErrNotFound) {
		return nil
	}
	return err
}

// dropAll forgets all deliveries of a webhook that is deleted, and what it was told of: one of the same id is another one.
func (c *courier) dropAll(ctx context.Context, namespace, id string) error {
	c.forget(namespace, id)
	errs := []error{gone(c.server.config.DB.DeleteState(ctx, announcedBucket, hookName(namespace, id)))}
	list, err := c.server.deliveries(ctx, namespace, id, 0)
	for i := range list {
		errs = append(errs, c.drop(ctx, &list[i]))
	}
	return errors.Join(append(errs, err)...)
}

// sweep takes over what other servers have left, and tells of changes that nobody was told of.
func (c *courier) sweep(ctx context.Context) {
	q := control.Query{Kind: control.KindWebhook, Limit: 1000}
	for {
		hooks, err := c.server.config.DB.List(ctx, q)
		if err != nil {
			c.fault(ctx, "what was left is looked for later", err)
			return
		}
		for i := range hooks {
			c.fault(ctx, "what was left is looked for later", c.sweepHook(ctx, &hooks[i]))
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
	grace := 2 * c.server.config.Hooks.Timeout // in which whoever has it would have sent it
	for _, d := range list {
		if d.State != pending || c.holds(&d) {
			continue
		}
		if d.Owner == c.owner { // what became of it could not be kept
			if d.Next.Add(grace).Before(now) {
				c.push(d)
			}
			continue
		}
		if d.Next = laterOf(d.Next.Add(grace), now); d.Next.After(now) {
			c.offer(d) // looked at again when it is due
			continue
		}
		d.Owner = c.owner
		if err := c.save(ctx, &d); err != nil {
			return err
		}
		c.push(d)
	}
	return c.missed(ctx, hook, now.Add(-grace))
}

// offer puts a delivery of another server in the queue, unless it is there.
func (c *courier) offer(d delivery) {
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

// missed tells of a change before a time that a webhook was not told of, because a server ended too soon.
func (c *courier) missed(ctx context.Context, hook *control.Object, before time.Time) error {
	db := c.server.config.DB
	_, revision, err := db.Revision(ctx, hook.Namespace)
	if err != nil {
		return err
	}
	told := hook.Revision
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
		told = max(told, n)
	}
	if revision <= told {
		return nil
	}
	changes, err := db.Log(ctx, control.LogQuery{Namespace: hook.Namespace, After: revision - 1, Before: revision + 1, Limit: 1})
	if err != nil || len(changes) == 0 || changes[0].Time.After(before) {
		return err
	}
	return c.begin(ctx, hook.Namespace, hook.ID, announcement{revision, changes[0].Time})
}
