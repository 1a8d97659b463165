package redisdb

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// readBatch is the maximum number of objects that one script reads, because a script blocks the server.
const readBatch = 500

// A progress has the last revision of a namespace, the last one for nodes, and the revision up to which the log is
// pruned.
type progress struct{ last, nodes, pruned int64 }

func (db *DB) progress(ctx context.Context, namespace string) (progress, error) {
	cmd := db.client.B().Hmget().Key(db.key("progress")).Field("last\x00"+namespace, "nodes\x00"+namespace,
		"pruned\x00"+namespace).Build()
	values, err := db.client.Do(ctx, cmd).ToArray()
	if err != nil {
		return progress{}, err
	}
	var numbers [3]int64
	for i := range values {
		if values[i].IsNil() {
			continue
		}
		if numbers[i], err = values[i].AsInt64(); err != nil {
			return progress{}, err
		}
	}
	return progress{numbers[0], numbers[1], numbers[2]}, nil
}

// Revision returns the revisions of the last changes.
func (db *DB) Revision(ctx context.Context, namespace string) (last, forNodes int64, err error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	p, err := db.progress(ctx, namespace)
	return p.last, p.nodes, db.fault("read", err)
}

// Get returns an object.
func (db *DB) Get(ctx context.Context, namespace string, kind control.Kind, id string) (*control.Object, error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	packed, err := db.client.Do(ctx,
		db.client.B().Hget().Key(db.key("objects")).Field(objectName(kind, namespace, id)).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return nil, fmt.Errorf("%s %s: %w", kind, id, control.ErrNotFound)
	}
	if err != nil {
		return nil, db.fault("read", err)
	}
	o := &control.Object{Namespace: namespace, Kind: kind, ID: id}
	return o, unpackObject(packed, o)
}

// bounds returns the range of names of the objects of a query, in the syntax of ZRANGEBYLEX.
func bounds(q *control.Query) (from, to string) {
	switch {
	case q.Namespace != "" && q.AfterID != "":
		from = "(" + objectName(q.Kind, q.Namespace, q.AfterID)
	case q.Namespace != "":
		from = "[" + objectName(q.Kind, q.Namespace, "")
	case q.AfterNamespace != "" || q.AfterID != "":
		from = "(" + objectName(q.Kind, q.AfterNamespace, q.AfterID)
	default:
		from = "[" + string(q.Kind) + "\x00"
	}
	if q.Namespace != "" {
		return from, "(" + string(q.Kind) + "\x00" + q.Namespace + "\x01"
	}
	return from, "(" + string(q.Kind) + "\x01"
}

// A page is the reply of page.lua.
type page struct {
	objects  []control.Object
	count    int
	last     string // name of the last object read, empty if there are no more
	progress int64
}

// page reads up to scanLimit objects and returns those that match the search, at most limit of them. If limit is 0, it
// only counts them. It also returns the value of a field of the key "progress" at that time.
func (db *DB) page(ctx context.Context, from, to string, scanLimit, limit int, search, field string) (*page, error) {
	keys := []string{db.key("index"), db.key("objects"), db.key("progress")}
	args := []string{from, to, strconv.Itoa(scanLimit), strconv.Itoa(limit), field, ""}
	if search != "" {
		s := tables.SearchFor(search)
		args = append(append(args[:5], s.ID, s.Body), s.Names...)
	}
	r := newReply(pageScript.Exec(ctx, db.client, keys, args))
	if r.err != nil {
		return nil, db.fault("read", r.err)
	}
	p := &page{progress: r.number(), last: r.text(), count: int(r.number())}
	found := r.texts()
	if r.err != nil {
		return nil, r.err
	}
	var err error
	for i := 0; i+1 < len(found); i += 2 {
		var o control.Object
		if o.Kind, o.Namespace, o.ID, err = splitName(found[i]); err != nil {
			return nil, err
		}
		if err := unpackObject(found[i+1], &o); err != nil {
			return nil, err
		}
		p.objects = append(p.objects, o)
	}
	return p, nil
}

// List returns a page of objects.
func (db *DB) List(ctx context.Context, q control.Query) ([]control.Object, error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	limit := max(q.Limit, 1)
	var list []control.Object
	for from, to := bounds(&q); ; {
		scanLimit := db.batch
		if q.Search == "" {
			scanLimit = min(scanLimit, limit-len(list))
		}
		p, err := db.page(ctx, from, to, scanLimit, limit-len(list), q.Search, "last\x00")
		if err != nil {
			return nil, err
		}
		if list = append(list, p.objects...); p.last == "" || len(list) >= limit {
			return list, nil
		}
		from = "(" + p.last
	}
}

// Count returns the number of objects that match a query.
func (db *DB) Count(ctx context.Context, q control.Query) (int, error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	from, to := bounds(&q)
	if q.Search == "" {
		n, err := db.client.Do(ctx, db.client.B().Zlexcount().Key(db.key("index")).Min(from).Max(to).Build()).AsInt64()
		return int(n), db.fault("read", err)
	}
	for total := 0; ; {
		p, err := db.page(ctx, from, to, db.batch, 0, q.Search, "last\x00")
		if err != nil {
			return 0, err
		}
		if total += p.count; p.last == "" {
			return total, nil
		}
		from = "(" + p.last
	}
}

// Namespaces returns the names of the namespaces that have objects.
func (db *DB) Namespaces(ctx context.Context) ([]string, error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	names, err := db.client.Do(ctx, db.client.B().Hkeys().Key(db.key("counts")).Build()).AsStrSlice()
	slices.Sort(names)
	return names, db.fault("read", err)
}

// Snapshot calls each for all objects of a namespace that nodes receive.
func (db *DB) Snapshot(
	ctx context.Context, namespace string, each func(*control.Object) error,
) (revision int64, err error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.StreamTimeout)
	defer cancel()
	p, err := db.progress(ctx, namespace)
	if err != nil {
		return 0, db.fault("read", err)
	}
	for _, kind := range control.NodeKinds() {
		if err := db.asOf(ctx, namespace, kind, p.nodes, each); err != nil {
			return 0, err
		}
	}
	return p.nodes, nil
}
