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

// Redis has no snapshots, and a script that reads everything would block the server. So objects are read in pages
// while others write, and objects changed after the wanted revision are restored from the log:
//
//   - an object of that revision or an earlier one is unchanged;
//   - an object of a later revision is returned as before its first change after that revision;
//   - an object that was deleted before its page was read is in the set of objects that were changed after that
//     revision ("touched").

// A readPage covers the ids up to its last one, at a revision.
type readPage struct {
	lastID   string // empty for the last page
	revision int64  // of the namespace
}

// asOf calls each for the objects of a kind at a revision. Objects that were changed later may be out of order.
func (db *DB) asOf(
	ctx context.Context, namespace string, kind control.Kind, revision int64, each func(*control.Object) error,
) error {
	from, to := bounds(&control.Query{Namespace: namespace, Kind: kind})
	var pages []readPage
	done := map[string]bool{} // ids of objects that were changed before their page was read
	for {
		p, err := db.page(ctx, from, to, db.batch, db.batch, "", "last\x00"+namespace)
		if err != nil {
			return err
		}
		var later []string
		for i := range p.objects {
			o := &p.objects[i]
			if o.Revision > revision {
				done[o.ID] = true
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
	return db.eachDeleted(ctx, namespace, kind, revision, pages, done, each)
}

// eachDeleted calls each for the objects that existed at a revision and were deleted before their page was read.
func (db *DB) eachDeleted(ctx context.Context, namespace string, kind control.Kind, revision int64, pages []readPage,
	done map[string]bool, each func(*control.Object) error,
) error {
	cmd := db.client.B().Zrangebyscore().Key(db.key("touched", string(kind), namespace)).Min(
		"(" + formatInt(revision)).Max("+inf").Build()
	touched, err := db.client.Do(ctx, cmd).AsStrSlice()
	if err != nil {
		return db.fault("read", err)
	}
	touched = slices.DeleteFunc(touched, func(id string) bool { return done[id] })
	err = db.eachBefore(ctx, namespace, kind, revision, touched, func(first int64, o *control.Object) error {
		at, _ := slices.BinarySearchFunc(pages, o.ID, func(p readPage, id string) int {
			if p.lastID == "" {
				return 1
			}
			return cmp.Compare(p.lastID, id)
		})
		if first > pages[at].revision {
			return nil // it was changed after its page was read, so each has got it
		}
		return each(o)
	})
	if err != nil {
		return err
	}
	// This is correct only if the log still reaches back to the revision.
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
				continue // pruned meanwhile: eachDeleted detects it
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
