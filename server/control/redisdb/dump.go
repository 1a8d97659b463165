package redisdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/dump"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// Dump writes a backup of the content at the time of the call.
func (db *DB) Dump(ctx context.Context, w io.Writer) error {
	ctx, cancel := tables.WithTimeout(ctx, tables.StreamTimeout)
	defer cancel()
	out, err := dump.NewWriter(w, time.Now())
	if err != nil {
		return err
	}
	namespaces, err := db.namespaces(ctx)
	if err != nil {
		return err
	}
	last := int64(0)
	for i := range namespaces {
		if err := out.Write(dump.Line{Namespace: &namespaces[i]}); err != nil {
			return err
		}
		if namespaces[i].Name == "" {
			last = namespaces[i].Last
		}
	}
	kinds := kindNames()
	slices.Sort(kinds)
	for _, kind := range kinds {
		for i := range namespaces {
			n := &namespaces[i]
			if n.Name == "" {
				continue
			}
			err := db.asOf(ctx, n.Name, control.Kind(kind), n.Last, func(o *control.Object) error {
				return out.Write(dump.Line{Object: &dump.Object{
					Namespace: o.Namespace, Kind: o.Kind, ID: o.ID, Revision: o.Revision,
					Created: o.Created.UnixMicro(), Updated: o.Updated.UnixMicro(), By: o.By, Body: o.Body,
				}})
			})
			if err != nil {
				return err
			}
		}
	}
	if err := db.dumpChanges(ctx, last, out); err != nil {
		return err
	}
	states, err := db.allStates(ctx, "-", "+", math.MaxInt)
	if err != nil {
		return err
	}
	for _, s := range states {
		state := dump.State{Bucket: s.Bucket, ID: s.ID, Expires: s.Expires.UnixMicro(), Body: s.Body}
		if err := out.Write(dump.Line{State: &state}); err != nil {
			return err
		}
	}
	return out.Close()
}

// namespaces returns the revisions of all namespaces, sorted by name.
func (db *DB) namespaces(ctx context.Context) ([]dump.Namespace, error) {
	fields, err := db.client.Do(ctx, db.client.B().Hgetall().Key(db.key("progress")).Build()).AsStrMap()
	if err != nil {
		return nil, db.fault("back up", err)
	}
	found := map[string]*dump.Namespace{"": {}}
	for field, value := range fields {
		property, name, ok := strings.Cut(field, "\x00")
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errReply, err)
		}
		if found[name] == nil {
			found[name] = &dump.Namespace{Name: name}
		}
		switch property {
		case "last":
			found[name].Last = n
		case "nodes":
			found[name].Nodes = n
		case "pruned":
			found[name].Pruned = n
		}
	}
	var list []dump.Namespace
	for _, name := range slices.Sorted(maps.Keys(found)) {
		list = append(list, *found[name])
	}
	return list, nil
}

// dumpChanges writes the log up to a revision.
func (db *DB) dumpChanges(ctx context.Context, last int64, out *dump.Writer) error {
	for after := int64(0); ; {
		entries, err := db.findByRevision(ctx, &control.LogQuery{After: after, Before: last + 1, Limit: logPage})
		if err != nil {
			return err
		}
		for _, e := range entries {
			after = e.Revision
			if err := out.Write(dump.Line{Change: &e.Change}); err != nil {
				return err
			}
			count := 0
			err = db.eachOp(ctx, e, func(op *dump.Op) error {
				count++
				return out.Write(dump.Line{Op: op})
			})
			if err == nil && count != e.opCount {
				err = errors.New("back up: the log was pruned during the backup; try again")
			}
			if err != nil {
				return err
			}
		}
		if len(entries) < logPage {
			return nil
		}
	}
}

// Restore replaces all content by a backup, completely or not at all. It writes the backup to staged keys, and renames
// them at the end.
func (db *DB) Restore(ctx context.Context, r io.Reader, base int64) error {
	in, err := dump.NewReader(r)
	if err != nil {
		return err
	}
	ctx, cancel := tables.WithTimeout(ctx, tables.StreamTimeout)
	defer cancel()
	if last, _, err := db.Revision(ctx, ""); err != nil {
		return err
	} else if base != control.AnyRevision && base != last {
		return db.notEmpty(last)
	}
	s := &staging{db: db, pairs: map[string]string{}, counts: map[string]int64{}}
	if err := s.begin(ctx); err != nil {
		return err
	}
	err = s.fill(ctx, in)
	if err == nil {
		err = s.finish(ctx, base)
	}
	if err == nil {
		db.changes.Notify()
	}
	cleanupCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tables.CallTimeout)
	defer cancel()
	return errors.Join(err, s.cleanUp(cleanupCtx))
}

func (db *DB) notEmpty(last int64) error {
	return fmt.Errorf("restore %s: %w: it is at revision %d", db.name, control.ErrNotEmpty, last)
}

// A staging is a restore in progress. fill writes the backup to staged keys, and finish renames them to the final keys.
type staging struct {
	db     *DB
	pairs  map[string]string // final keys by staged key
	queue  []rueidis.Completed
	change *logEntry        // the last change that was read, nil before the first one
	counts map[string]int64 // objects by namespace
}

// lockTTL is the time after which the lock of a crashed restore expires.
const lockTTL = tables.StreamTimeout + time.Minute

// lockKey is the key of the lock that prevents other restores, and listKey the key of the set of staged keys.
func (s *staging) lockKey() string { return s.db.key("restore", "lock") }
func (s *staging) listKey() string { return s.db.key("restore", "keys") }

// begin acquires the lock, and removes the staged keys of a crashed restore.
func (s *staging) begin(ctx context.Context) error {
	b := s.db.client.B()
	err := s.db.client.Do(ctx, b.Set().Key(s.lockKey()).Value("1").Nx().Px(lockTTL).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return fmt.Errorf("restore %s: another restore is running", s.db.name)
	}
	if err != nil {
		return s.db.fault("restore", err)
	}
	leftover, err := s.db.client.Do(ctx, b.Smembers().Key(s.listKey()).Build()).AsStrSlice()
	if err != nil {
		return s.db.fault("restore", err)
	}
	if len(leftover) > 0 {
		err = s.db.client.Do(ctx, b.Unlink().Key(leftover...).Build()).Error()
	}
	return s.db.fault("restore", err)
}

// key returns the staged key for the final key with these parts.
func (s *staging) key(parts ...string) string {
	final := s.db.key(parts...)
	staged := s.db.key(append([]string{"restore", "of"}, parts...)...)
	if _, known := s.pairs[staged]; !known {
		s.pairs[staged] = final
		s.queue = append(s.queue, s.db.client.B().Sadd().Key(s.listKey()).Member(staged).Build())
	}
	return staged
}

// send sends the queued commands if there are at least a thousand, or if flush is set.
func (s *staging) send(ctx context.Context, flush bool) error {
	if len(s.queue) < 1000 && !flush {
		return nil
	}
	for _, result := range s.db.client.DoMulti(ctx, s.queue...) {
		if err := result.Error(); err != nil {
			return s.db.fault("restore", err)
		}
	}
	s.queue = nil
	return nil
}

func (s *staging) hset(key, field, value string) {
	s.queue = append(s.queue, s.db.client.B().Hset().Key(key).FieldValue().FieldValue(field, value).Build())
}

func (s *staging) zadd(key string, score float64, member string) {
	s.queue = append(s.queue, s.db.client.B().Zadd().Key(key).ScoreMember().ScoreMember(score, member).Build())
}

func (s *staging) fill(ctx context.Context, in *dump.Reader) error {
	s.hset(s.key("progress"), "form", strconv.Itoa(formatVersion))
	for {
		line, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := s.add(line); err != nil {
			return err
		}
		if err := s.send(ctx, false); err != nil {
			return err
		}
	}
	s.endChange()
	for namespace, count := range s.counts {
		s.hset(s.key("counts"), namespace, formatInt(count))
	}
	return s.send(ctx, true)
}

// add queues the commands that write one line of the backup.
func (s *staging) add(line *dump.Line) error {
	switch {
	case line.Namespace != nil:
		n := line.Namespace
		for property, value := range map[string]int64{"last": n.Last, "nodes": n.Nodes, "pruned": n.Pruned} {
			if value != 0 {
				s.hset(s.key("progress"), property+"\x00"+n.Name, formatInt(value))
			}
		}
	case line.Object != nil:
		o := line.Object
		name := objectName(o.Kind, o.Namespace, o.ID)
		s.hset(s.key("objects"), name, packObject(&dump.Previous{
			Revision: o.Revision, Created: o.Created, Updated: o.Updated, By: o.By, Body: o.Body,
		}))
		s.zadd(s.key("index"), 0, name)
		s.zadd(s.key("touched", string(o.Kind), o.Namespace), float64(o.Revision), o.ID)
		s.counts[o.Namespace]++
	case line.Change != nil:
		s.endChange()
		c := line.Change
		s.change = &logEntry{Change: *c}
		s.zadd(s.key("log"), float64(c.Revision), formatInt(c.Revision))
		s.zadd(s.key("log", c.Namespace), float64(c.Revision), formatInt(c.Revision))
	case line.Op != nil && s.change == nil:
		return errors.New("restore: an operation does not follow its change")
	case line.Op != nil:
		s.addOp(line.Op)
	case line.State != nil:
		name := stateName(line.State.Bucket, line.State.ID)
		s.hset(s.key("states"), name, formatInt(line.State.Expires)+"\x00"+string(line.State.Body))
		s.zadd(s.key("states", "index"), 0, name)
		s.zadd(s.key("states", "expiry"), float64(line.State.Expires), name)
	}
	return nil
}

// endChange writes the last change, after its operations, because it has their number and kinds.
func (s *staging) endChange() {
	if s.change != nil {
		s.hset(s.key("changes"), formatInt(s.change.Revision), s.change.pack())
	}
}

// addOp adds an operation of the last change. Changes come in the order of revisions, so the last revision of each
// object remains in the key "touched".
func (s *staging) addOp(op *dump.Op) {
	e := s.change
	index := strconv.Itoa(e.opCount)
	s.hset(s.key("ops"), formatInt(e.Revision)+"\x00"+index, packOp(op))
	s.zadd(s.key("history"), 0, objectName(op.Kind, e.Namespace, op.ID)+"\x00"+formatPadded(e.Revision)+"\x00"+index)
	s.zadd(s.key("touched", string(op.Kind), e.Namespace), float64(e.Revision), op.ID)
	e.opCount++
	if !e.hasKind(op.Kind) {
		e.kinds += " " + string(op.Kind) + " "
	}
}

// finishTries is the maximum number of attempts of finish while other processes change the database.
const finishTries = 20

// finish deletes the old keys and renames the staged keys, atomically. It tries again if another process has changed
// the database since finish read its revision.
func (s *staging) finish(ctx context.Context, base int64) error {
	for try := 1; ; try++ {
		revision, oldKeys, err := s.oldKeys(ctx)
		if err != nil {
			return err
		}
		if base != control.AnyRevision && revision != base {
			return s.db.notEmpty(revision)
		}
		keys := append([]string{s.db.key("progress")}, oldKeys...)
		for staged, final := range s.pairs {
			keys = append(keys, staged, final)
		}
		args := []string{s.db.channel(), formatInt(revision), strconv.Itoa(len(oldKeys))}
		last, err := finishScript.Exec(ctx, s.db.client, keys, args).AsInt64()
		switch {
		case err != nil:
			return s.db.fault("restore", err)
		case last == revision:
			return nil
		case try == finishTries:
			return s.db.notEmpty(last)
		}
	}
}

// oldKeys returns the revision of the database, and all its keys except progress.
func (s *staging) oldKeys(ctx context.Context) (revision int64, keys []string, err error) {
	namespaces, err := s.db.namespaces(ctx)
	if err != nil {
		return 0, nil, err
	}
	for _, n := range namespaces {
		if n.Name == "" {
			revision = n.Last
			continue
		}
		keys = append(append(keys, s.db.key("log", n.Name)), s.db.touched(n.Name)...)
	}
	for _, name := range []string{
		"objects", "index", "changes", "ops", "log", "history", "counts", "states", "states:index", "states:expiry",
	} {
		keys = append(keys, s.db.key(name))
	}
	return revision, keys, nil
}

// cleanUp removes the staged keys and the lock.
func (s *staging) cleanUp(ctx context.Context) error {
	keys := []string{s.listKey(), s.lockKey()}
	for staged := range s.pairs {
		keys = append(keys, staged)
	}
	return s.db.fault("restore", s.db.client.Do(ctx, s.db.client.B().Unlink().Key(keys...).Build()).Error())
}
