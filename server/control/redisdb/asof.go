package redisdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// A readPage is a page that was read: the objects after the previous page, up to lastID.
type readPage struct {
	lastID   string // empty for the last page
	revision int64  // revision of the namespace when the page was read
}

// asOf calls each for the objects of a kind as of a revision. Objects with later changes may be out of order.
//
// Redis has no snapshots, and a script that reads all objects would block the server. So asOf reads pages of objects
// while other processes change them. For each object, there are three cases:
//
//   - It has not changed since the revision: it is returned as it is in the page.
//   - It has changed: the log has its content before its first later change.
//   - It was deleted before its page was read, so it is not in the page. The key "touched" has its ID, and the log has
//     its content.
func (db *DB) asOf(
	ctx context.Context, namespace string, kind control.Kind, revision int64, each func(*control.Object) error,
) error {
	from, to := bounds(&control.Query{Namespace: namespace, Kind: kind})
	var pages []readPage
	restored := map[string]bool{} // IDs of objects in the pages whose content was taken from the log
	for {
		p, err := db.page(ctx, from, to, db.batch, db.batch, "", "last\x00"+namespace)
		if err != nil {
			return err
		}
		var later []string
		for i := range p.objects {
			o := &p.objects[i]
			if o.Revision > revision {
				restored[o.ID] = true
				later = append(later, o.ID)
				continue
			}
			if err := each(o); err != nil {
				return err
			}
		}
		if err := db.eachBefore(ctx, namespace, kind, revision, later,
			func(_ int64, o *control.Object) error { return each(o) }); err != nil {
			return err
		}
		if p.last == "" {
			pages = append(pages, readPage{"", p.progress})
			break
		}
		_, _, id, err := splitName(p.last)
		if err != nil {
			return err
		}
		pages = append(pages, readPage{id, p.progress})
		from = "(" + p.last
	}
	return db.eachDeleted(ctx, namespace, kind, revision, pages, restored, each)
}

// eachDeleted calls each for the objects that existed at a revision and were deleted before asOf read their page.
func (db *DB) eachDeleted(ctx context.Context, namespace string, kind control.Kind, revision int64, pages []readPage,
	restored map[string]bool, each func(*control.Object) error,
) error {
	cmd := db.client.B().Zrangebyscore().Key(db.key("touched", string(kind), namespace)).Min(
		"(" + formatInt(revision)).Max("+inf").Build()
	touched, err := db.client.Do(ctx, cmd).AsStrSlice()
	if err != nil {
		return db.fault("read", err)
	}
	touched = slices.DeleteFunc(touched, func(id string) bool { return restored[id] })
	err = db.eachBefore(ctx, namespace, kind, revision, touched, func(first int64, o *control.Object) error {
		index, _ := slices.BinarySearchFunc(pages, o.ID, func(p readPage, id string) int {
			if p.lastID == "" {
				return 1
			}
			return cmp.Compare(p.lastID, id)
		})
		if first > pages[index].revision {
			return nil // its first change came after its page was read, so asOf has returned it
		}
		return each(o)
	})
	if err != nil {
		return err
	}
	// If changes after the revision were pruned from the log, objects are missing.
	p, err := db.progress(ctx, namespace)
	if err != nil {
		return db.fault("read", err)
	}
	if revision < p.pruned {
		return fmt.Errorf("namespace %s at %d: %w", namespace, revision, control.ErrPruned)
	}
	return nil
}

// eachBefore restores objects that were changed after a revision. It calls each for those that existed at the revision,
// with their content at the revision, and with the revision of their first later change.
func (db *DB) eachBefore(ctx context.Context, namespace string, kind control.Kind, revision int64, ids []string,
	each func(first int64, o *control.Object) error,
) error {
	for chunk := range slices.Chunk(ids, db.batch) {
		args := []string{formatPadded(revision)}
		for _, id := range chunk {
			args = append(args, objectName(kind, namespace, id))
		}
		pairs, err := firstsScript.Exec(ctx, db.client, []string{db.key("history"), db.key("ops")}, args).AsStrSlice()
		if err != nil {
			return db.fault("read", err)
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i+1] == "" {
				continue // the change was pruned, which eachDeleted detects
			}
			first, err := strconv.ParseInt(pairs[i], 10, 64)
			if err != nil {
				return fmt.Errorf("%w: %w", errReply, err)
			}
			op, err := unpackOp(pairs[i+1])
			if err != nil {
				return err
			}
			if op.Previous == nil {
				continue
			}
			o := &control.Object{Namespace: namespace, Kind: kind, ID: op.ID}
			setContent(o, op.Previous)
			if err := each(first, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// At returns the objects of a kind at a revision.
func (db *DB) At(ctx context.Context, namespace string, kind control.Kind, revision int64) ([]control.Object, error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.StreamTimeout)
	defer cancel()
	var list []control.Object
	err := db.asOf(ctx, namespace, kind, revision, tables.Collect(&list))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b control.Object) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}
