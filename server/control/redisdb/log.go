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
	"github.com/headgate/headgate/server/control/internal/dump"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// Log returns changes of the log.
func (db *DB) Log(ctx context.Context, q control.LogQuery) ([]control.Change, error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	q.Limit = max(q.Limit, 1)
	find := db.findByRevision
	if q.ID != "" {
		find = db.findByID
	}
	entries, err := find(ctx, &q)
	if err != nil {
		return nil, err
	}
	var list []control.Change
	for _, e := range entries {
		c := control.Change{
			Revision: e.Revision, Namespace: e.Namespace, Time: tables.TimeOf(e.Time), Actor: e.Actor, From: e.From,
			Action: e.Action, Note: e.Note, Base: control.AnyRevision,
		}
		err := db.eachOp(ctx, e, func(op *dump.Op) error {
			logged := control.Op{Kind: op.Kind, ID: op.ID, Body: op.Body}
			if op.Previous != nil {
				logged.Base, logged.Before = op.Previous.Revision, op.Previous.Body
			}
			c.Ops = append(c.Ops, logged)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(c.Ops) > 0 { // the change may have been pruned since db.entries
			list = append(list, c)
		}
	}
	return list, nil
}

// logPage is the number of changes that one call reads.
const logPage = 200

// findByRevision finds changes of one or all namespaces in the order of revisions.
func (db *DB) findByRevision(ctx context.Context, q *control.LogQuery) ([]*logEntry, error) {
	key := db.key("log")
	if q.Namespace != "" {
		key = db.key("log", q.Namespace)
	}
	after, before := q.After, q.Before
	var list []*logEntry
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
		entries, err := db.entries(ctx, revisions)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if q.Kind != "" && !e.hasKind(q.Kind) {
				continue
			}
			if list = append(list, e); len(list) == q.Limit {
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

// findByID finds changes of the objects with the query's ID, by the history of each object.
func (db *DB) findByID(ctx context.Context, q *control.LogQuery) ([]*logEntry, error) {
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
			// The limit applies to all objects together, so it is enough to read that many changes of each object.
			found, err := db.history(ctx, objectName(kind, namespace, q.ID), q)
			if err != nil {
				return nil, err
			}
			revisions = append(revisions, found...)
		}
	}
	slices.Sort(revisions)
	revisions = slices.Compact(revisions)
	if q.Newest {
		slices.Reverse(revisions)
	}
	return db.entries(ctx, revisions[:min(len(revisions), q.Limit)])
}

// history returns the revisions of up to q.Limit changes of an object. The members of the key "history" begin with the
// object's name, a NUL byte and the revision, and Redis sorts them by bytes. So "\x01" comes after all members with the
// same beginning.
func (db *DB) history(ctx context.Context, name string, q *control.LogQuery) ([]int64, error) {
	low, high := "["+name+"\x00"+formatPadded(q.After)+"\x01", "("+name+"\x01"
	if q.Before > 0 {
		high = "(" + name + "\x00" + formatPadded(q.Before)
	}
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
	revisions := make([]int64, len(found))
	for i, member := range found {
		padded := member[len(name)+1 : len(name)+17] // as formatPadded formats it
		if revisions[i], err = strconv.ParseInt(padded, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: %w", errReply, err)
		}
	}
	return revisions, nil
}

// entries reads changes without their operations. It omits pruned changes.
func (db *DB) entries(ctx context.Context, revisions []int64) ([]*logEntry, error) {
	var list []*logEntry
	for chunk := range slices.Chunk(revisions, logPage) {
		var fields []string
		for _, revision := range chunk {
			fields = append(fields, formatInt(revision))
		}
		err := db.eachField(ctx, "changes", fields, func(i int, packed string) error {
			e, err := unpackLogEntry(chunk[i], packed)
			list = append(list, e)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// eachField reads fields of a hash, and calls each with the index and the value of each field that exists.
func (db *DB) eachField(
	ctx context.Context, hash string, fields []string, each func(index int, value string) error,
) error {
	values, err := db.client.Do(ctx, db.client.B().Hmget().Key(db.key(hash)).Field(fields...).Build()).ToArray()
	if err != nil {
		return db.fault("read the log of", err)
	}
	for i := range values {
		value, err := values[i].ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return db.fault("read the log of", err)
		}
		if err := each(i, value); err != nil {
			return err
		}
	}
	return nil
}

// Committed returns when a revision was committed.
func (db *DB) Committed(ctx context.Context, revision int64) (time.Time, error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	found, err := db.entries(ctx, []int64{revision})
	if err != nil || len(found) == 0 {
		return time.Time{}, err
	}
	return tables.TimeOf(found[0].Time), nil
}

// eachOp calls each with the operations of a change.
func (db *DB) eachOp(ctx context.Context, e *logEntry, each func(*dump.Op) error) error {
	for from := 0; from < e.opCount; from += db.batch {
		var fields []string
		for index := from; index < min(e.opCount, from+db.batch); index++ {
			fields = append(fields, formatInt(e.Revision)+"\x00"+strconv.Itoa(index))
		}
		err := db.eachField(ctx, "ops", fields, func(_ int, packed string) error {
			op, err := unpackOp(packed)
			if err != nil {
				return err
			}
			return each(op)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Since returns the current state of the objects that were changed after a revision.
func (db *DB) Since(ctx context.Context, namespace string, after int64, limit int) ([]control.Object, int64, error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	keys := []string{db.key("progress"), db.key("objects")}
	args := []string{namespace, formatInt(after), strconv.Itoa(limit)}
	for _, kind := range control.NodeKinds() {
		keys, args = append(keys, db.key("touched", string(kind), namespace)), append(args, string(kind))
	}
	r := newReply(sinceScript.Exec(ctx, db.client, keys, args))
	if r.err != nil {
		return nil, 0, db.fault("read", r.err)
	}
	switch status := r.text(); {
	case status == "many":
		return nil, 0, tables.TooMany(namespace, after, limit)
	case status != "done":
		return nil, 0, tables.Pruned(namespace, after)
	}
	revision, found := r.number(), r.texts()
	if r.err != nil {
		return nil, 0, r.err
	}
	var changed []control.Object
	for i := 0; i+3 < len(found); i += 4 { // kind, ID, revision, and content unless it was deleted
		o := control.Object{Namespace: namespace, Kind: control.Kind(found[i]), ID: found[i+1]}
		if found[i+3] != "" {
			r.err = unpackObject(found[i+3], &o)
		} else {
			o.Revision, r.err = strconv.ParseInt(found[i+2], 10, 64)
			o.Created, o.Updated = tables.TimeOf(0), tables.TimeOf(0)
		}
		if r.err != nil {
			return nil, 0, fmt.Errorf("%w: %w", errReply, r.err)
		}
		changed = append(changed, o)
	}
	return changed, revision, nil
}

// Prune deletes changes older than a time, except the latest change of each object.
func (db *DB) Prune(ctx context.Context, before time.Time) (int, error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.StreamTimeout)
	defer cancel()
	total := 0
	for after := int64(0); ; {
		cmd := db.client.B().Zrangebyscore().Key(db.key("log")).Min("("+formatInt(after)).Max("+inf").Limit(0,
			logPage).Build()
		revisions, err := db.client.Do(ctx, cmd).AsIntSlice()
		if err != nil {
			return total, db.fault("prune", err)
		}
		entries, err := db.entries(ctx, revisions)
		if err != nil {
			return total, err
		}
		for _, e := range entries {
			if e.Time >= before.UnixMicro() {
				continue
			}
			n, err := db.prune(ctx, e)
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

func (db *DB) prune(ctx context.Context, e *logEntry) (int64, error) {
	keys := append([]string{
		db.key("progress"), db.key("objects"), db.key("changes"), db.key("ops"), db.key("log"), db.key("log", e.Namespace),
		db.key("history"),
	}, db.touched(e.Namespace)...)
	args := append([]string{e.Namespace, formatInt(e.Revision), formatPadded(e.Revision), strconv.Itoa(e.opCount)},
		kindNames()...)
	n, err := pruneScript.Exec(ctx, db.client, keys, args).AsInt64()
	return n, db.fault("prune", err)
}
