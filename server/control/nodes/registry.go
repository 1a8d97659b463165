// Package nodes is the registry of nodes. It stores the last heartbeat of each node that gets its rules from the rules
// service.
package nodes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Registry stores heartbeats in the database, so that other processes of the rules service can read them. It writes
// heartbeats without changes only once per WriteInterval. It is safe for concurrent use.
type Registry struct {
	db  control.DB
	now func() time.Time
	max int

	mu     sync.Mutex
	nodes  map[nodeKey]entry
	counts map[string]int // nodes by namespace
}

type nodeKey struct{ namespace, id string }

func keyOf(n *control.Node) nodeKey { return nodeKey{n.Namespace, n.ID} }

// An entry is a node's last heartbeat to this process.
type entry struct {
	node    control.Node
	written time.Time // time of the last write to the database; zero to write the next heartbeat
}

const (
	// WriteInterval is the interval at which heartbeats without changes are written to the database.
	WriteInterval = time.Minute
	// Keep is how long a node is listed after its last heartbeat.
	Keep = time.Hour

	defaultMax   = 10_000
	bucketPrefix = "node/" // followed by a namespace
)

// NewRegistry returns a Registry of the nodes in a database.
func NewRegistry(db control.DB, now func() time.Time) *Registry {
	return &Registry{db: db, now: now, max: defaultMax, nodes: make(map[nodeKey]entry), counts: make(map[string]int)}
}

// SetMax sets the maximum number of nodes. Default 10,000.
func (r *Registry) SetMax(n int) { r.max = n }

// A FullError means that a node cannot be registered, because there are too many.
type FullError struct{ Max int }

func (e *FullError) Error() string {
	return fmt.Sprintf("there are %d nodes, which is the maximum", e.Max)
}

// Heartbeat records a heartbeat, and returns the current revision of the node's namespace. The error is a *FullError if
// there are too many nodes.
func (r *Registry) Heartbeat(ctx context.Context, n control.Node) (latest int64, err error) {
	_, latest, err = r.db.Revision(ctx, n.Namespace)
	if err != nil {
		return 0, err
	}
	now := r.now().UTC()
	n.Seen, n.Behind = now, false
	write, err := r.update(n, now)
	if err != nil || !write {
		return latest, err
	}
	body, err := json.Marshal(n)
	if err != nil {
		return 0, err
	}
	state := control.State{Bucket: bucketPrefix + n.Namespace, ID: n.ID, Body: body, Expires: now.Add(Keep)}
	if err := r.db.PutState(ctx, state); err != nil {
		r.markUnwritten(keyOf(&n))
		return 0, fmt.Errorf("store the heartbeat of node %s: %w", n.ID, err)
	}
	return latest, nil
}

// update stores a heartbeat in memory, and reports whether it must be written to the database.
func (r *Registry) update(n control.Node, now time.Time) (write bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.nodes[keyOf(&n)]
	if !known {
		if len(r.nodes) >= r.max {
			r.removeSilent(now)
		}
		if len(r.nodes) >= r.max && !r.makeRoom(n.Namespace) {
			return false, &FullError{r.max}
		}
		r.counts[n.Namespace]++
	}
	// Do not compare the time and the statistics, which always differ. So other processes see them up to WriteInterval
	// late.
	compared := before.node
	compared.Seen, compared.Fleet, compared.Health = n.Seen, n.Fleet, n.Health
	if known && now.Sub(before.written) < WriteInterval && reflect.DeepEqual(compared, n) &&
		sameOutage(&before.node, &n) {
		r.nodes[keyOf(&n)] = entry{n, before.written}
		return false, nil
	}
	r.nodes[keyOf(&n)] = entry{n, now}
	return true, nil
}

// sameOutage reports whether two heartbeats agree on since when requests pass without a limit, and on whether that has
// ended.
func sameOutage(a, b *control.Node) bool {
	var none control.HealthStats
	x, y := cmp.Or(a.Health, &none), cmp.Or(b.Health, &none)
	return x.UnlimitedSince.Equal(y.UnlimitedSince) && x.UnlimitedUntil.IsZero() == y.UnlimitedUntil.IsZero()
}

// removeSilent removes the nodes that sent no heartbeat for Keep.
func (r *Registry) removeSilent(now time.Time) {
	for key, e := range r.nodes {
		if now.Sub(e.node.Seen) > Keep {
			r.remove(key)
		}
	}
}

// makeRoom makes room for a node of a namespace. It removes the node with the oldest heartbeat from the namespace with
// the most nodes, so that the nodes of one namespace cannot exclude the nodes of the others. It returns false if the
// given namespace has about as many nodes as that one.
func (r *Registry) makeRoom(namespace string) bool {
	fullest := namespace
	for other, count := range r.counts {
		if fullestCount := r.counts[fullest]; count > fullestCount || count == fullestCount && other < fullest {
			fullest = other
		}
	}
	// With a smaller difference, two namespaces would remove each other's nodes again and again.
	if r.counts[fullest] <= r.counts[namespace]+1 {
		return false
	}
	var oldest nodeKey
	for key, e := range r.nodes {
		if key.namespace == fullest && (oldest.id == "" || e.node.Seen.Before(r.nodes[oldest].node.Seen)) {
			oldest = key
		}
	}
	r.remove(oldest)
	return true
}

func (r *Registry) remove(key nodeKey) {
	delete(r.nodes, key)
	if r.counts[key.namespace]--; r.counts[key.namespace] == 0 {
		delete(r.counts, key.namespace)
	}
}

// markUnwritten ensures that the next heartbeat of a node is written to the database.
func (r *Registry) markUnwritten(key nodeKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.nodes[key]; ok {
		e.written = time.Time{}
		r.nodes[key] = e
	}
}

// Reset ensures that the next heartbeat of each node is written to the database. It is called after the database was
// restored.
func (r *Registry) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, e := range r.nodes {
		e.written = time.Time{}
		r.nodes[key] = e
	}
}

// latest returns the later one of a heartbeat from the database and the heartbeat in memory.
func (r *Registry) latest(n control.Node) control.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.nodes[keyOf(&n)]; ok && e.node.Seen.After(n.Seen) {
		return e.node
	}
	return n
}

// Namespaces returns the namespaces of the nodes that have sent heartbeats to this process.
func (r *Registry) Namespaces() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.counts))
}

// List returns the nodes of a namespace, sorted by ID.
func (r *Registry) List(ctx context.Context, namespace string) ([]control.Node, error) {
	states, err := r.db.States(ctx, bucketPrefix+namespace, defaultMax)
	if err != nil {
		return nil, err
	}
	list := make([]control.Node, 0, len(states))
	for i := range states {
		n, err := parse(&states[i])
		if err != nil {
			return nil, err
		}
		list = append(list, r.latest(n))
	}
	slices.SortFunc(list, func(a, b control.Node) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

func parse(state *control.State) (n control.Node, err error) {
	if err := json.Unmarshal(state.Body, &n); err != nil {
		return n, fmt.Errorf("read node %s: %w", state.ID, err)
	}
	return n, nil
}

// Get returns a node, or nil if it is not registered.
func (r *Registry) Get(ctx context.Context, namespace, id string) (*control.Node, error) {
	if !control.IsName(id) {
		return nil, nil
	}
	state, err := r.db.GetState(ctx, bucketPrefix+namespace, id)
	if errors.Is(err, control.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	n, err := parse(state)
	if err != nil {
		return nil, err
	}
	n = r.latest(n)
	return &n, nil
}

// Delete removes a node. The node's next heartbeat adds it again.
func (r *Registry) Delete(ctx context.Context, n *control.Node) error {
	if err := r.db.DeleteState(ctx, bucketPrefix+n.Namespace, n.ID); err != nil {
		return fmt.Errorf("delete node %s: %w", n.ID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e, known := r.nodes[keyOf(n)]; {
	case !known:
	case e.node.Started.Equal(n.Started):
		r.remove(keyOf(n))
	default: // another process now uses the ID; its entry in the database was deleted, so write it again
		e.written = time.Time{}
		r.nodes[keyOf(n)] = e
	}
	return nil
}

// Leave removes a node that stops, unless another process now uses its ID.
func (r *Registry) Leave(ctx context.Context, n control.Node) error {
	known, err := r.Get(ctx, n.Namespace, n.ID)
	if err != nil || known == nil || !known.Started.Equal(n.Started) {
		return err
	}
	return r.Delete(ctx, known)
}

// MayRegister reports whether heartbeats of a node may be sent with a token. Only the token of the first heartbeat may
// be used until it is revoked, or the node has stopped, was deleted, or has sent no heartbeat for Keep. No token may be
// used for the node in the process of the rules service.
func (r *Registry) MayRegister(ctx context.Context, namespace, id, token string) (bool, error) {
	r.mu.Lock()
	current := r.nodes[nodeKey{namespace, id}].node.By
	r.mu.Unlock()
	if current == token {
		return true, nil
	}
	known, err := r.Get(ctx, namespace, id)
	if err != nil || known == nil || known.By == token {
		return true, err
	}
	if known.By == "" {
		return false, nil
	}
	_, err = r.db.Get(ctx, control.SystemNamespace, control.KindToken, known.By)
	if errors.Is(err, control.ErrNotFound) {
		return true, nil
	}
	return false, err
}
