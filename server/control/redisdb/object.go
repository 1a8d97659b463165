package redisdb

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/dump"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// Stored values consist of texts separated by NUL bytes. No text contains a NUL byte: control.Change.Validate ensures
// it for names, and JSON never has one.

// objectName returns the name of an object in hashes and indexes.
func objectName(kind control.Kind, namespace, id string) string {
	return string(kind) + "\x00" + namespace + "\x00" + id
}

// splitName is the inverse of objectName.
func splitName(name string) (kind control.Kind, namespace, id string, err error) {
	parts := strings.Split(name, "\x00")
	if len(parts) != 3 {
		return "", "", "", fmt.Errorf("%w: the name %q", errReply, name)
	}
	return control.Kind(parts[0]), parts[1], parts[2], nil
}

// formatPadded formats a revision so that texts sort like numbers.
func formatPadded(revision int64) string { return fmt.Sprintf("%016d", revision) }

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

// packObject encodes an object without its name.
func packObject(o *dump.Previous) string {
	return strings.Join([]string{
		formatInt(o.Revision), formatInt(o.Created), formatInt(o.Updated), o.By, string(o.Body),
	}, "\x00")
}

// unpackObject decodes an object whose name is set.
func unpackObject(packed string, o *control.Object) error {
	content, err := unpackParts(strings.SplitN(packed, "\x00", 5))
	if err != nil {
		return fmt.Errorf("%s %s: %w", o.Kind, o.ID, err)
	}
	setContent(o, content)
	return nil
}

func setContent(o *control.Object, content *dump.Previous) {
	o.Revision, o.Created, o.Updated = content.Revision, tables.TimeOf(content.Created), tables.TimeOf(content.Updated)
	o.By, o.Body = content.By, content.Body
}

func unpackParts(parts []string) (*dump.Previous, error) {
	if len(parts) != 5 {
		return nil, errReply
	}
	content := &dump.Previous{By: parts[3], Body: []byte(parts[4])}
	for i, into := range []*int64{&content.Revision, &content.Created, &content.Updated} {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errReply, err)
		}
		*into = n
	}
	return content, nil
}

// packOp encodes an operation of a change in the format of commit.lua.
func packOp(op *dump.Op) string {
	put, previous := "1", ""
	if op.Body == nil {
		put = "0"
	}
	if op.Previous != nil {
		previous = packObject(op.Previous)
	}
	return strings.Join([]string{string(op.Kind), op.ID, put, string(op.Body), previous}, "\x00")
}

func unpackOp(packed string) (*dump.Op, error) {
	parts := strings.Split(packed, "\x00")
	if len(parts) != 5 && len(parts) != 9 {
		return nil, fmt.Errorf("%w: operation of a change", errReply)
	}
	op := &dump.Op{Kind: control.Kind(parts[0]), ID: parts[1]}
	if parts[2] == "1" {
		op.Body = []byte(parts[3])
	}
	if len(parts) == 5 {
		return op, nil
	}
	var err error
	op.Previous, err = unpackParts(parts[4:])
	return op, err
}

// A logEntry is a change in the log, without its operations.
type logEntry struct {
	dump.Change
	opCount int
	kinds   string // kinds of the changed objects, each surrounded by spaces
}

func (e *logEntry) hasKind(kind control.Kind) bool {
	return strings.Contains(e.kinds, " "+string(kind)+" ")
}

func (e *logEntry) pack() string {
	return strings.Join([]string{
		e.Namespace, formatInt(e.Time), e.Actor, e.From, e.Action, e.Note, strconv.Itoa(e.opCount), e.kinds,
	}, "\x00")
}

func unpackLogEntry(revision int64, packed string) (*logEntry, error) {
	parts := strings.Split(packed, "\x00")
	if len(parts) != 8 {
		return nil, fmt.Errorf("%w: change %d", errReply, revision)
	}
	e := &logEntry{Change: dump.Change{
		Revision: revision, Namespace: parts[0], Actor: parts[2], From: parts[3], Action: parts[4], Note: parts[5],
	}, kinds: parts[7]}
	var err error
	if e.Time, err = strconv.ParseInt(parts[1], 10, 64); err == nil {
		e.opCount, err = strconv.Atoi(parts[6])
	}
	if err != nil {
		return nil, fmt.Errorf("%w: change %d: %w", errReply, revision, err)
	}
	return e, nil
}

// A reply reads the values of a script's reply one after the other. After the first value of the wrong type, err is set
// and all reads return zero values.
type reply struct {
	values []rueidis.RedisMessage
	err    error
}

func newReply(result rueidis.RedisResult) *reply {
	values, err := result.ToArray()
	return &reply{values, err}
}

// next reads the next value.
func next[T any](r *reply, read func(*rueidis.RedisMessage) (T, error)) (value T) {
	if r.err == nil && len(r.values) == 0 {
		r.err = errReply
	}
	if r.err == nil {
		value, r.err = read(&r.values[0])
		r.values = r.values[1:]
	}
	return value
}

func (r *reply) number() int64   { return next(r, (*rueidis.RedisMessage).AsInt64) }
func (r *reply) text() string    { return next(r, (*rueidis.RedisMessage).ToString) }
func (r *reply) texts() []string { return next(r, (*rueidis.RedisMessage).AsStrSlice) }
