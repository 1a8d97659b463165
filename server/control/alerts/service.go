package alerts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/secret"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// Options configure a Service. All are required.
type Options struct {
	DB control.DB
	// Namespaces returns the namespaces of nodes that send heartbeats to this process. They may have no rules.
	Namespaces func() []string
	// Nodes returns the nodes of a namespace, and Traffic its statistics.
	Nodes   func(ctx context.Context, namespace string) ([]control.Node, error)
	Traffic func(ctx context.Context, namespace string) (*traffic.History, error)
	// Notify is called once for each alert that fires or resolves.
	Notify func(ctx context.Context, namespace string, a *Alert) error
	Now    func() time.Time
	Logger *slog.Logger
}

const (
	// interval is the time between two evaluations, and evaluateTimeout the timeout of one.
	interval        = 5 * time.Second
	evaluateTimeout = 30 * time.Second
	// leaseTime is the duration of the lease of a process. Only the process with the lease evaluates conditions.
	leaseTime  = time.Minute
	renewAfter = leaseTime / 3
	// trafficInterval is the time between two readings of the traffic.
	trafficInterval = 15 * time.Second

	leaseBucket, leaseID = "alerts", "evaluator"
	bucketPrefix         = "alert/" // followed by a namespace
)

// A Service evaluates the conditions of all namespaces. If several processes use one database, only the one with the
// lease does so. A Service is safe for concurrent use.
type Service struct {
	options Options
	id      string // identifies this process in the database

	mu      sync.Mutex // held while conditions are evaluated
	renewed time.Time  // when this process last renewed its lease
	books   map[string]*Book
	denials map[string]*denialStats // by namespace

	pending sync.Map // copies of Book.pending, by namespace
}

// denialStats are the fields of an Input about denied requests.
type denialStats struct {
	read            time.Time // when the traffic was read
	denied, earlier float64
	requests        uint64
	comparable      bool
}

// NewService returns a Service.
func NewService(o Options) *Service {
	return &Service{options: o, id: secret.NewID(), books: map[string]*Book{}, denials: map[string]*denialStats{}}
}

// Run evaluates the conditions every few seconds until ctx ends.
func (s *Service) Run(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.release(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
		if err := s.Evaluate(ctx); err != nil && ctx.Err() == nil {
			s.options.Logger.Warn("rules service: alerts not evaluated, trying again", "err", err.Error())
		}
	}
}

// Evaluate evaluates the conditions now, unless another process has the lease.
func (s *Service) Evaluate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, evaluateTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Now()
	if acquired, err := s.acquireLease(ctx, now); err != nil || !acquired {
		return err
	}
	namespaces, err := s.options.DB.Namespaces(ctx)
	if err != nil {
		return err
	}
	namespaces = append(namespaces, s.options.Namespaces()...)
	slices.Sort(namespaces)
	var errs []error
	for _, namespace := range slices.Compact(namespaces) {
		if namespace == control.SystemNamespace {
			continue
		}
		if err := s.evaluate(ctx, namespace, now); err != nil {
			errs = append(errs, fmt.Errorf("namespace %s: %w", namespace, err))
		}
	}
	return errors.Join(errs...)
}

// acquireLease acquires or renews the lease. It returns false if another process has it.
func (s *Service) acquireLease(ctx context.Context, now time.Time) (bool, error) {
	db := s.options.DB
	owner, err := s.owner(ctx)
	switch {
	case err != nil:
		return false, err
	case owner == s.id && now.Sub(s.renewed) < renewAfter:
		return true, nil
	case owner != s.id && owner != "":
		clear(s.books) // the other process stores changes that these books do not have
		s.pending.Clear()
		return false, nil
	}
	state := control.State{
		Bucket: leaseBucket, ID: leaseID, Body: strconv.AppendQuote(nil, s.id), Expires: now.Add(leaseTime),
	}
	if err := db.PutState(ctx, state); err != nil {
		return false, err
	}
	if owner == "" { // another process may have stored its lease at the same time
		if owner, err = s.owner(ctx); err != nil || owner != s.id {
			return false, err
		}
	}
	s.renewed = now
	return true, nil
}

// owner returns the ID of the process that has the lease, empty if there is none.
func (s *Service) owner(ctx context.Context) (string, error) {
	state, err := s.options.DB.GetState(ctx, leaseBucket, leaseID)
	switch {
	case errors.Is(err, control.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	}
	return strings.Trim(string(state.Body), `"`), nil
}

// release deletes the lease of this process, so that another process can acquire it.
func (s *Service) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, interval)
	defer cancel()
	if owner, err := s.owner(ctx); err != nil || owner != s.id {
		return
	}
	if err := s.options.DB.DeleteState(ctx, leaseBucket, leaseID); err != nil {
		s.options.Logger.Debug("rules service: the lease for alerts was not released", "err", err.Error())
	}
}

// evaluate evaluates the conditions of a namespace, and publishes the alerts that have changed.
func (s *Service) evaluate(ctx context.Context, namespace string, now time.Time) error {
	nodes, err := s.options.Nodes(ctx, namespace)
	if err != nil {
		return err
	}
	_, revision, err := s.options.DB.Revision(ctx, namespace)
	if err != nil {
		return err
	}
	book := s.books[namespace]
	if book == nil {
		stored, err := List(ctx, s.options.DB, namespace)
		if err != nil {
			return err
		}
		book = Restore(stored, now)
		s.books[namespace] = book
	}
	in := Input{Nodes: nodes, Revision: revision}
	if len(nodes) > 0 {
		d, err := s.readDenials(ctx, namespace, now)
		if err != nil {
			return err
		}
		in.DeniedShare, in.EarlierShare, in.Requests, in.Comparable = d.denied, d.earlier, d.requests, d.comparable
	}
	changes := book.Update(Find(&in, now), now)
	s.pending.Store(namespace, maps.Clone(book.pending))
	var errs []error
	for _, list := range [][]Alert{changes.Fired, changes.Resolved} {
		for i := range list {
			errs = append(errs, s.publish(ctx, namespace, &list[i], now))
		}
	}
	for _, id := range changes.Expired {
		if err := s.options.DB.DeleteState(ctx, bucketPrefix+namespace, stateID(id)); !errors.Is(err, control.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// publish logs an alert that fired or resolved, stores it, and calls Options.Notify.
func (s *Service) publish(ctx context.Context, namespace string, a *Alert, now time.Time) error {
	level := slog.LevelWarn
	if a.State == Resolved {
		level = slog.LevelInfo
	}
	s.options.Logger.Log(ctx, level, "alert "+string(a.State), "namespace", namespace, "alert", a.ID, "summary", a.Summary)
	body, err := json.Marshal(storedAlert{*a, a.past})
	if err != nil {
		return err
	}
	state := control.State{Bucket: bucketPrefix + namespace, ID: stateID(a.ID), Body: body, Expires: now.Add(storedTime)}
	return errors.Join(s.options.DB.PutState(ctx, state), s.options.Notify(ctx, namespace, a))
}

// A storedAlert is an alert in the database.
type storedAlert struct {
	Alert
	Past string `json:"past,omitempty"`
}

// storedTime is how long an alert is stored after its last change.
const storedTime = 366 * 24 * time.Hour

// List returns the stored alerts of a namespace, in the order of Sort.
func List(ctx context.Context, db control.DB, namespace string) ([]Alert, error) {
	states, err := db.States(ctx, bucketPrefix+namespace, maxAlerts)
	if err != nil {
		return nil, err
	}
	list := make([]Alert, len(states))
	for i := range states {
		var stored storedAlert
		if err := json.Unmarshal(states[i].Body, &stored); err != nil {
			return nil, fmt.Errorf("read the alert %s: %w", states[i].ID, err)
		}
		list[i] = stored.Alert
		list[i].past = stored.Past
	}
	Sort(list)
	return list, nil
}

// readDenials returns the statistics about denied requests. They are at most trafficInterval old.
func (s *Service) readDenials(ctx context.Context, namespace string, now time.Time) (*denialStats, error) {
	if known := s.denials[namespace]; known != nil && now.Sub(known.read) < trafficInterval {
		return known, nil
	}
	history, err := s.options.Traffic(ctx, namespace)
	if err != nil {
		return nil, err
	}
	// An hour to compare with, and the last minutes, which are not compared.
	series := history.Series(traffic.SeriesQuery{Window: 70 * time.Minute, Limit: 1}, now)
	result := &denialStats{read: now}
	last := len(series.Total.Requests) - 2 // the last element is the current minute, which is incomplete
	result.requests = series.Total.Requests[last]
	result.denied = ratio(series.Total.Denied[last:last+1], series.Total.Requests[last:last+1])
	const skippedMinutes = 5 // they are not compared, because a spike may have begun in them
	before := last - skippedMinutes
	denied, requests := series.Total.Denied[:before], series.Total.Requests[:before]
	if sum(requests) < minDenialVolume { // for example after a night with little traffic
		day := history.Series(traffic.SeriesQuery{Window: 24 * time.Hour, Limit: 1}, now)
		before = len(day.Total.Requests) - 2 - skippedMinutes
		denied, requests = day.Total.Denied[:before], day.Total.Requests[:before]
	}
	result.earlier, result.comparable = ratio(denied, requests), sum(requests) >= minDenialVolume
	s.denials[namespace] = result
	return result, nil
}

func sum(list []uint64) (n uint64) {
	for _, v := range list {
		n += v
	}
	return n
}

func ratio(part, whole []uint64) float64 { return float64(sum(part)) / float64(max(sum(whole), 1)) }

// stateID returns the ID under which an alert is stored. It is a hash, because subjects may be long or have any
// characters.
func stateID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}
