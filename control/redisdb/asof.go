package redisdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/headgate/headgate/control"
)

// Redis has no snapshots, and a script that read everything would hold the server for as long. So objects are read in pages
// while others write, and what was changed after the moment that is asked for is put back to what it was, by the log:
//
//   - what a page has of that moment or before is as it was;
//   - what a page has of later is as it was before the first change after that moment;
//   - what is in no page, since it was deleted before its page was read, is found among what was touched after that moment.

// A read page covers the ids up to its last one, and is of a revision.
type readPage struct {
	lastID   string // empty for the last page
	revision int64  // of the namespace
}

// asOf calls each for the objects of a kind as they were at a revision. Those that were changed since may come later than
// their ids.
func (db *DB) asOf(ctx context.Context, namespace string, kind control.Kind, revision int64, each func(*control.Object) error) error {
	from, to := bounds(&control.Query{Namespace: namespace, Kind: kind})
	var pages []readPage
	handled := map[string]bool{} // those that were touched before their page was read
	for {
		p, err := db.page(ctx, from, to, db.look, db.look, "", "last\x00"+namespace)
		if err != nil {
			return err
		}
		var later []string
		for i := range p.objects {
			o := &p.objects[i]
			if o.Revision > revision {
				handled[o.ID] = true
				later = append(later, o.ID)
				continue
			}
			if err := each(o); err != nil {
				return err
			}
		}
		if err := db.before(ctx, namespace, kind, revision, later, func(_ int64, o *control.Object) error { return each(o) }); err != nil {
			return err
		}
		if p.last == "" {
			pages = append(pages, readPage{"", p.known})
			break
		}
		_, _, id, err := splitName(p.last)
		if err != nil {
			return err
		}
		pages = append(pages, readPage{id, p.known})
		from = "(" + p.last
	}
	return db.missed(ctx, namespace, kind, revision, pages, handled, each)
}

// missed calls each for the objects that were there at a revision and gone when their page was read.
func (db *DB) missed(ctx context.Context, namespace string, kind control.Kind, revision int64, pages []readPage, handled map[string]bool, each func(*control.Object) error) error {
	cmd := db.client.B().Zrangebyscore().Key(db.key("touched", string(kind), namespace)).Min("(" + number(revision)).Max("+inf").Build()
	touched, err := db.client.Do(ctx, cmd).AsStrSlice()
	if err != nil {
		return db.fault("read", err)
	}
	touched = slices.DeleteFunc(touched, func(id string) bool { return handled[id] })
	err = db.before(ctx, namespace, kind, revision, touched, func(first int64, o *control.Object) error {
		at, _ := slices.BinarySearchFunc(pages, o.ID, func(p readPage, id string) int {
			if p.lastID == "" {
				return 1
			}
			return cmp.Compare(p.lastID, id)
		})
		if first > pages[at].revision {
			return nil // it was untouched when its page was read, and so it was in it
		}
		return each(o)
	})
	if err != nil {
		return err
	}
	// All of that holds if the log has reached back so far all the while.
	p, err := db.progress(ctx, namespace)
	if err != nil {
		return db.fault("read", err)
	}
	if revision < p.pruned {
		return fmt.Errorf("namespace %s at %d: %w", namespace, revision, control.ErrPruned)
	}
	return nil
}

// before calls each for those of some objects that were there at a revision after which they were changed, as they were
// then, with the revision of that change.
func (db *DB) before(ctx context.Context, namespace string, kind control.Kind, revision int64, ids []string, each func(first int64, o *control.Object) error) error {
	for some := range slices.Chunk(ids, db.look) {
		args := []string{padded(revision)}
		for _, id := range some {
			args = append(args, objectName(kind, namespace, id))
		}
		answer, err := firstsScript.Exec(ctx, db.client, []string{db.key("history"), db.key("ops")}, args).AsStrSlice()
		if err != nil {
			return db.fault("read", err)
		}
		for i := 0; i+1 < len(answer); i += 2 {
			if answer[i+1] == "" {
				continue // forgotten meanwhile: missed notices
			}
			first, err := strconv.ParseInt(answer[i], 10, 64)
			if err != nil {
				return fmt.Errorf("%w: %w", errReply, err)
			}
			op, err := unpackOp(answer[i+1], namespace)
			if err != nil {
				return err
			}
			if op.was == nil {
				continue
			}
			if err := each(first, op.was); err != nil {
				return err
			}
		}
	}
	return nil
}

// At returns the objects of a kind as they were.
func (db *DB) At(ctx context.Context, namespace string, kind control.Kind, revision int64) ([]control.Object, error) {
	ctx, cancel := bounded(ctx, streaming)
	defer cancel()
	var list []control.Object
	err := db.asOf(ctx, namespace, kind, revision, func(o *control.Object) error {
		list = append(list, *o)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b control.Object) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}
