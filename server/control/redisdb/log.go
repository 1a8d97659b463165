package redisdb

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// Log returns changes of the log.
func (db *DB) Log(ctx context.Context, q control.LogQuery) ([]control.Change, error) {
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	q.Limit = max(q.Limit, 1)
	var metas []*meta
	var err error
	if q.ID != "" {
		metas, err = db.logOfID(ctx, &q)
	} else {
		metas, err = db.logOfAll(ctx, &q)
	}
	if err != nil {
		return nil, err
	}
	list := make([]control.Change, 0, len(metas))
	for _, m := range metas {
		c := control.Change{
			Revision: m.revision, Namespace: m.namespace, Time: timeOf(
				m.time), Actor: m.actor, From: m.from, Action: m.action, Note: m.notes, Base: control.Any,
		}
		err := db.ops(ctx, m, func(o *op) error {
			made := control.Op{Kind: o.kind, ID: o.id, Body: o.body}
			if o.was != nil {
				made.Base, made.Before = o.was.Revision, o.was.Body
			}
			c.Ops = append(c.Ops, made)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(c.Ops) > 0 { // not pruned meanwhile
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, nil
}

// logPage is the number of changes read at once.
const logPage = 200

// logOfAll finds changes by namespace and kind.
func (db *DB) logOfAll(ctx context.Context, q *control.LogQuery) ([]*meta, error) {
	key := db.key("log")
	if q.Namespace != "" {
		key = db.key("log", q.Namespace)
	}
	after, before := q.After, q.Before
	var list []*meta
	for {
		low, high := "("+formatInt(after), "+inf"
		if before > 0 {
			high = "(" + formatInt(before)
		}
		size := int64(logPage)
		if q.Kind == "" {
			size = int64(min(logPage, q.Limit-len(list)))
		}
		var cmd rueidis.Completed
		if q.Newest {
			cmd = db.client.B().Zrevrangebyscore().Key(key).Max(high).Min(low).Limit(0, size).Build()
		} else {
			cmd = db.client.B().Zrangebyscore().Key(key).Min(low).Max(high).Limit(0, size).Build()
		}
		revisions, err := db.client.Do(ctx, cmd).AsIntSlice()
		if err != nil {
			return nil, db.fault("read the log of", err)
		}
		metas, err := db.metas(ctx, revisions)
		if err != nil {
			return nil, err
		}
		for _, m := range metas {
			if q.Kind != "" && !m.touched(q.Kind) {
				continue
			}
			if list = append(list, m); len(list) == q.Limit {
				return list, nil
			}
		}
		if len(revisions) < int(size) {
			return list, nil
		}
		if last := revisions[len(revisions)-1]; q.Newest {
			before = last
		} else {
			after = last
		}
	}
}

// logOfID finds changes by the history of an object, or of all objects with its id.
func (db *DB) logOfID(ctx context.Context, q *control.LogQuery) ([]*meta, error) {
	namespaces := []string{q.Namespace}
	if q.Namespace == "" {
		fields, err := db.client.Do(ctx, db.client.B().Hkeys().Key(db.key("progress")).Build()).AsStrSlice()
		if err != nil {
			return nil, db.fault("read the log of", err)
		}
		namespaces = nil
		for _, field := range fields {
			if name, ok := strings.CutPrefix(field, "last\x00"); ok && name != "" {
				namespaces = append(namespaces, name)
			}
		}
	}
	kinds := []control.Kind{q.Kind}
	if q.Kind == "" {
		kinds = control.Kinds()
	}
	var revisions []int64
	for _, namespace := range namespaces {
		for _, kind := range kinds {
			name := objectName(kind, namespace, q.ID)
			low, high := "["+name+"\x00"+formatPadded(q.After)+"\x01", "("+name+"\x01"
			if q.Before > 0 {
				high = "(" + name + "\x00" + formatPadded(q.Before)
			}
			// Each history returns at most the limit of all.
			var cmd rueidis.Completed
			if q.Newest {
				cmd = db.client.B().Zrevrangebylex().Key(db.key("history")).Max(high).Min(low).Limit(0, int64(q.Limit)).Build()
			} else {
				cmd = db.client.B().Zrangebylex().Key(db.key("history")).Min(low).Max(high).Limit(0, int64(q.Limit)).Build()
			}
			found, err := db.client.Do(ctx, cmd).AsStrSlice()
			if err != nil {
				return nil, db.fault("read the log of", err)
			}
			for _, member := range found {
				n, err := strconv.ParseInt(member[len(name)+1:len(name)+17], 10, 64)
				if err != nil {
					return nil, fmt.Errorf("%w: %w", errReply, err)
				}
				revisions = append(revisions, n)
			}
		}
	}
	slices.Sort(revisions)
	revisions = slices.Compact(revisions)
	if q.Newest {
		slices.Reverse(revisions)
	}
	return db.metas(ctx, revisions[:min(len(revisions), q.Limit)])
}

// metas reads the metadata of changes. Pruned changes are left out.
func (db *DB) metas(ctx context.Context, revisions []int64) ([]*meta, error) {
	var list []*meta
	for some := range slices.Chunk(revisions, logPage) {
		var fields []string
		for _, revision := range some {
			fields = append(fields, formatInt(revision))
		}
		answer, err := db.client.Do(ctx, db.client.B().Hmget().Key(db.key("changes")).Field(fields...).Build()).ToArray()
		if err != nil {
			return nil, db.fault("read the log of", err)
		}
		for i := range answer {
			packed, err := answer[i].ToString()
			if rueidis.IsRedisNil(err) {
				continue
			}
			if err != nil {
				return nil, db.fault("read the log of", err)
			}
			m, err := unpackMeta(some[i], packed)
			if err != nil {
				return nil, err
			}
			list = append(list, m)
		}
	}
	return list, nil
}

// Committed returns when a revision was committed.
func (db *DB) Committed(ctx context.Context, revision int64) (time.Time, error) {
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	found, err := db.metas(ctx, []int64{revision})
	if err != nil || len(found) == 0 {
		return time.Time{}, err
	}
	return timeOf(found[0].time), nil
}

// ops calls each for the parts of a change.
func (db *DB) ops(ctx context.Context, m *meta, each func(*op) error) error {
	for from := 0; from < m.ops; from += db.batch {
		var fields []string
		for place := from; place < min(m.ops, from+db.batch); place++ {
			fields = append(fields, formatInt(m.revision)+"\x00"+strconv.Itoa(place))
		}
		answer, err := db.client.Do(ctx, db.client.B().Hmget().Key(db.key("ops")).Field(fields...).Build()).ToArray()
		if err != nil {
			return db.fault("read the log of", err)
		}
		for i := range answer {
			packed, err := answer[i].ToString()
			if rueidis.IsRedisNil(err) {
				continue
			}
			if err != nil {
				return db.fault("read the log of", err)
			}
			o, err := unpackOp(packed, m.namespace)
			if err != nil {
				return err
			}
			if err := each(&o); err != nil {
				return err
			}
		}
	}
	return nil
}

// Since returns the current state of the objects that were changed after a revision.
func (db *DB) Since(ctx context.Context, namespace string, after int64, limit int) ([]control.Object, int64, error) {
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	keys, args := []string{db.key("progress"), db.key("objects")}, []string{
		namespace, formatInt(after),
		strconv.Itoa(limit),
	}
	for _, kind := range control.Kinds() {
		if kind.ForNodes() {
			keys, args = append(keys, db.key("touched", string(kind), namespace)), append(args, string(kind))
		}
	}
	answer, err := sinceScript.Exec(ctx, db.client, keys, args).ToArray()
	if err != nil {
		return nil, 0, db.fault("read", err)
	}
	switch word, err := answer[0].ToString(); {
	case err != nil:
		return nil, 0, err
	case word == "many":
		return nil, 0, tables.TooMany(namespace, after, limit)
	case word != "done" || len(answer) != 3:
		return nil, 0, tables.Pruned(namespace, after)
	}
	revision, err := answer[1].AsInt64()
	if err != nil {
		return nil, 0, err
	}
	found, err := answer[2].AsStrSlice()
	if err != nil {
		return nil, 0, err
	}
	var changed []control.Object
	for i := 0; i+3 < len(found); i += 4 {
		o := control.Object{Namespace: namespace, Kind: control.Kind(found[i]), ID: found[i+1]}
		if found[i+3] != "" {
			err = unpackObject(found[i+3], &o)
		} else {
			o.Revision, err = strconv.ParseInt(found[i+2], 10, 64)
			o.Created, o.Updated = timeOf(0), timeOf(0)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w", errReply, err)
		}
		changed = append(changed, o)
	}
	return changed, revision, nil
}

// Prune deletes changes older than a time, except those that are the latest of an object.
func (db *DB) Prune(ctx context.Context, before time.Time) (int, error) {
	ctx, cancel := withTimeout(ctx, streamTimeout)
	defer cancel()
	total := 0
	for after := int64(0); ; {
		cmd := db.client.B().Zrangebyscore().Key(db.key("log")).Min("("+formatInt(after)).Max("+inf").Limit(0,
			logPage).Build()
		revisions, err := db.client.Do(ctx, cmd).AsIntSlice()
		if err != nil {
			return total, db.fault("prune", err)
		}
		metas, err := db.metas(ctx, revisions)
		if err != nil {
			return total, err
		}
		for _, m := range metas {
			if m.time >= before.UnixMicro() {
				continue
			}
			n, err := db.prune(ctx, m)
			if total += int(n); err != nil {
				return total, err
			}
		}
		if len(revisions) < logPage {
			return total, nil
		}
		after = revisions[len(revisions)-1]
	}
}

func (db *DB) prune(ctx context.Context, m *meta) (int64, error) {
	keys := append([]string{
		db.key("progress"), db.key("objects"), db.key("changes"), db.key("ops"), db.key("log"), db.key("log",
			m.namespace), db.key("history"),
	}, db.touched(m.namespace)...)
	args := append([]string{m.namespace, formatInt(m.revision), formatPadded(m.revision), strconv.Itoa(m.ops)},
		kindNames()...)
	n, err := pruneScript.Exec(ctx, db.client, keys, args).AsInt64()
	return n, db.fault("prune", err)
}
