package fleettraffic

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/secret"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

const (
	// keep is how long statistics are kept.
	keep = 7 * 24 * time.Hour
	// maxNamespaces is the maximum number of namespaces, and maxBytes the maximum memory for the minutes of each one.
	maxNamespaces = 256
	maxBytes      = 16 << 20
	// maxPending is the maximum number of minutes that wait for the database. Older ones are dropped.
	maxPending = 60
	// flushTimeout is the timeout of a call of Flush, and of the first load of a namespace.
	flushTimeout = 30 * time.Second
)

// ErrTooMany means that there are statistics of maxNamespaces other namespaces.
var ErrTooMany = errors.New("there are reports of too many namespaces")

// Options configure a Store. All but LocalNode are required.
type Options struct {
	DB control.DB
	// Namer hides values of clients. It must hide them in the same way as on the nodes, so that a search finds them.
	Namer  *traffic.Namer
	Now    func() time.Time
	Logger *slog.Logger
	// LocalNode is the id of the node in this process, empty if there is none.
	LocalNode string
	// Erased is called with the attributes of each erased client, in the form in which statistics store them or hashed by
	// Namer.Erased. It must erase the client on the node in this process.
	Erased func(kept map[string]string)
}

// A Store has the statistics of all namespaces. It is safe for concurrent use.
type Store struct {
	options Options
	origin  string // identifies this process in the database
	started time.Time

	mu         sync.Mutex
	namespaces map[string]*namespace
	loading    sync.WaitGroup
}

// A namespace has the statistics of the nodes of a namespace.
type namespace struct {
	name    string
	history *traffic.History

	writing  sync.Mutex       // guards the fields up to minutes
	pending  []traffic.Minute // ended minutes that are not stored yet
	hour     int64            // the hour of the last write
	stored   int64            // the last hour whose clients were written
	openHour int64            // the last hour in which minutes in progress were written
	minutes  map[int64]bool   // the minutes whose clients are not stored yet

	mu sync.Mutex // guards loaded and erasures
	// loaded has the counts that were added from other processes, by state of a minute and by rule. The value is nil after
	// the final state was added.
	loaded    map[stateKey]map[string]traffic.Counts
	erasures  []Erasure // in the order in which this process learned of them
	forgotten int       // number of erasures that were dropped from the list
}

// NewStore returns a Store.
func NewStore(o Options) *Store {
	return &Store{options: o, origin: secret.NewID(), started: o.Now(), namespaces: map[string]*namespace{}}
}

// namespace returns the statistics of a namespace. At the first use, it starts to load them from the database.
func (s *Store) namespace(ctx context.Context, name string) (*namespace, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.namespaces[name]; n != nil {
		return n, nil
	}
	if len(s.namespaces) >= maxNamespaces {
		return nil, ErrTooMany
	}
	n := &namespace{
		name: name, loaded: map[stateKey]map[string]traffic.Counts{}, minutes: map[int64]bool{},
		history: traffic.NewHistory(traffic.HistoryOptions{Keep: keep, MaxBytes: maxBytes, Namer: s.options.Namer}),
	}
	s.namespaces[name] = n
	loadCtx := context.WithoutCancel(ctx)
	s.loading.Go(func() {
		ctx, cancel := context.WithTimeout(loadCtx, flushTimeout)
		defer cancel()
		if err := errors.Join(s.loadErasures(ctx, n), s.load(ctx, n, keep)); err != nil {
			s.options.Logger.Warn("traffic of the last days not loaded", "namespace", name, "err", err.Error())
		}
	})
	return n, nil
}

// History returns the statistics of a namespace.
func (s *Store) History(ctx context.Context, name string) (*traffic.History, error) {
	n, err := s.namespace(ctx, name)
	if err != nil {
		return nil, err
	}
	return n.history, nil
}

// Report adds the report of a node. It returns the erasures that the node must apply, and the cursor for its next
// report.
func (s *Store) Report(ctx context.Context, name string, r *traffic.Report) (list []Erasure, cursor string, err error) {
	n, err := s.namespace(ctx, name)
	if err != nil {
		return nil, "", err
	}
	now := s.options.Now()
	list, cursor = s.erasuresFor(n, r, now)
	s.dropErased(r, list, now)
	n.history.Add(r, now)
	return list, cursor, nil
}

// flushInterval is less than a minute, so that a process that is killed loses no more than a minute although nodes
// report a few seconds late.
const flushInterval = 30 * time.Second

// Run calls Flush every flushInterval until ctx ends, and a last time after that.
func (s *Store) Run(ctx context.Context) {
	for ctx.Err() == nil {
		now := s.options.Now()
		timer := time.NewTimer(now.Truncate(flushInterval).Add(flushInterval + traffic.ClientLag).Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
			s.Flush(ctx, false)
		}
	}
	s.loading.Wait()
	s.Flush(context.WithoutCancel(ctx), true)
}

// Flush stores the minutes that have ended. If all is true, it also ends and stores the minutes in progress. Otherwise
// it also loads what other processes have stored.
func (s *Store) Flush(ctx context.Context, all bool) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.namespaces))
	s.mu.Unlock()
	for _, n := range list {
		err := errors.Join(s.loadErasures(ctx, n), s.write(ctx, n, all))
		if !all {
			err = errors.Join(err, s.load(ctx, n, 3*time.Minute))
		}
		if err != nil && ctx.Err() == nil {
			s.options.Logger.Warn("traffic statistics not stored, trying again later", "namespace", n.name,
				"err", err.Error())
		}
	}
}
