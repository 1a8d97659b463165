package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/outbound"
	"github.com/headgate/headgate/server/control/internal/secret"
)

// A Service stores webhooks and sends events to them. It stores deliveries in the database. If a process stops, its
// deliveries are sent after the restart, or by another process with the same database. A Service is safe for concurrent
// use.
type Service struct {
	db      control.DB
	options Options
	now     func() time.Time
	logger  *slog.Logger
	id      string // random; identifies this process among those with the same database
	client  *http.Client
	wake    chan struct{}

	mu        sync.Mutex
	announced map[string]change   // last change that has no deliveries yet, by namespace
	queue     map[string]Delivery // deliveries to send, by key
	inFlight  map[string]bool     // keys of the deliveries that are being sent
	number    int64               // number of the last delivery of an alert
	sending   sync.WaitGroup
}

// A change is a committed change that webhooks must be notified of.
type change struct {
	revision int64
	time     time.Time
}

// NewService returns a Service. It sends nothing until Run is called.
func NewService(db control.DB, o Options, now func() time.Time, logger *slog.Logger) (*Service, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Service{
		db: db, options: o, now: now, logger: logger, id: secret.NewID(), wake: make(chan struct{}, 1),
		announced: make(map[string]change), queue: make(map[string]Delivery), inFlight: make(map[string]bool),
		client: outbound.NewClient(outbound.Options{Allow: o.allow, Timeout: o.Timeout, MaxIdleConns: 2 * o.Parallel}),
	}, nil
}

// Announce requests deliveries of a change to the webhooks of its namespace. It does not wait for them.
func (s *Service) Announce(namespace string, revision int64, at time.Time) {
	s.mu.Lock()
	if revision > s.announced[namespace].revision {
		s.announced[namespace] = change{revision, at}
	}
	s.mu.Unlock()
	s.wakeUp()
}

// wakeUp makes Run process the queue now.
func (s *Service) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // Run is about to wake up
	}
}

// Reset empties the queue after the database was restored. The next sweep fills it again.
func (s *Service) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.queue)
	clear(s.announced)
}

// Run sends deliveries until ctx ends, then waits until the requests in flight have ended.
func (s *Service) Run(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	defer s.sending.Wait()
	slots := make(chan struct{}, s.options.Parallel)
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	s.sweep(ctx)
	for ctx.Err() == nil {
		s.createDeliveries(ctx)
		timer := time.NewTimer(s.sendDue(ctx, slots))
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		case <-sweep.C:
			s.sweep(ctx)
		}
		timer.Stop()
	}
}

// push puts a delivery in the queue.
func (s *Service) push(d Delivery) {
	s.mu.Lock()
	s.queue[d.key()] = d
	s.mu.Unlock()
	s.wakeUp()
}

// pushAbsent adds a delivery unless it is in the queue or being sent.
func (s *Service) pushAbsent(d Delivery) {
	s.mu.Lock()
	_, queued := s.queue[d.key()]
	if !queued && !s.inFlight[d.key()] {
		s.queue[d.key()] = d
	}
	s.mu.Unlock()
	s.wakeUp()
}

// logError logs an error, unless there is none or ctx has ended.
func (s *Service) logError(ctx context.Context, message string, err error) {
	if err != nil && ctx.Err() == nil {
		s.logger.Warn("rules service: webhooks: "+message, "err", err.Error())
	}
}

// createDeliveries creates the deliveries of announced changes.
func (s *Service) createDeliveries(ctx context.Context) {
	const message = "cannot create deliveries, retrying at the next sweep"
	s.mu.Lock()
	announced := s.announced
	s.announced = make(map[string]change)
	s.mu.Unlock()
	for namespace, c := range announced {
		hooks, err := s.hooksFor(ctx, namespace, Revisions)
		if err != nil {
			s.logError(ctx, message, err)
			continue
		}
		for i := range hooks {
			if hooks[i].Revision < c.revision {
				s.logError(ctx, message, s.createDelivery(ctx, namespace, hooks[i].ID, c))
			}
		}
	}
}

// announcedBucket is the bucket that stores, for each webhook, the last revision for which it has a delivery.
const announcedBucket = "announced"

// createDelivery creates one delivery, stores it, and puts it in the queue.
func (s *Service) createDelivery(ctx context.Context, namespace, id string, c change) error {
	now := s.now().UTC()
	d := Delivery{
		Revision: c.revision, Webhook: id, Namespace: namespace, Changed: c.time, State: Pending, Next: now, Owner: s.id,
	}
	if err := s.store(ctx, &d); err != nil {
		return err
	}
	err := s.db.PutState(ctx, control.State{
		Bucket: announcedBucket, ID: namespace + "/" + id, Body: []byte(strconv.FormatInt(c.revision, 10)),
		// States must expire. This one is needed as long as the webhook exists, so it expires in ten years.
		Expires: now.Add(10 * 366 * 24 * time.Hour),
	})
	if err != nil {
		return err
	}
	s.push(d)
	return s.removeOldest(ctx, namespace, id)
}
