package redisdb

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
)

// Stored values are texts separated by NUL. No text contains one: control.Change.Validate checks that, and JSON has
// none.

// objectName returns the name of an object.
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

func timeOf(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

// packObject encodes an object.
func packObject(revision, created, updated int64, by string, body []byte) string {
	return formatInt(revision) + "\x00" + formatInt(created) + "\x00" + formatInt(updated) + "\x00" + by + "\x00" +
		string(body)
}

// unpackObject decodes an object whose name is set.
func unpackObject(packed string, o *control.Object) error {
	parts := strings.SplitN(packed, "\x00", 5)
	if len(parts) != 5 {
		return fmt.Errorf("%w: %s %s", errReply, o.Kind, o.ID)
	}
	return readObject(parts, o)
}

func readObject(parts []string, o *control.Object) error {
	var numbers [3]int64
	for i := range numbers {
		n, err := strconv.ParseInt(parts[i], 10, 64)
		if err != nil {
			return fmt.Errorf("%w: %s %s: %w", errReply, o.Kind, o.ID, err)
		}
		numbers[i] = n
	}
	o.Revision, o.Created, o.Updated, o.By, o.Body = numbers[0], timeOf(numbers[1]), timeOf(numbers[2]), parts[3], []byte(
		parts[4])
	return nil
}

// An op is a part of a change: what it did to one object.
type op struct {
	kind control.Kind
	id   string
	body []byte          // nil if deleted
	was  *control.Object // nil if it did not exist
}

// packOp encodes an op, like commit.lua. was is a result of packObject, empty for none.
func packOp(kind control.Kind, id string, body []byte, was string) string {
	put := "1"
	if body == nil {
		put = "0"
	}
	return string(kind) + "\x00" + id + "\x00" + put + "\x00" + string(body) + "\x00" + was
}

func unpackOp(packed, namespace string) (op, error) {
	parts := strings.Split(packed, "\x00")
	if len(parts) != 5 && len(parts) != 9 {
		return op{}, fmt.Errorf("%w: part of a change of namespace %s", errReply, namespace)
	}
	o := op{kind: control.Kind(parts[0]), id: parts[1]}
	if parts[2] == "1" {
		o.body = []byte(parts[3])
	}
	if len(parts) == 9 {
		o.was = &control.Object{Namespace: namespace, Kind: o.kind, ID: o.id}
		return o, readObject(parts[4:], o.was)
	}
	return o, nil
}

// A meta is the metadata of a change.
type meta struct {
	revision                              int64
	namespace, actor, from, action, notes string
	time                                  int64
	ops                                   int
	kinds                                 string // each surrounded by spaces
}

func (m *meta) touched(kind control.Kind) bool {
	return strings.Contains(m.kinds, " "+string(kind)+" ")
}

func packMeta(m *meta) string {
	return strings.Join([]string{
		m.namespace, formatInt(m.time), m.actor, m.from, m.action, m.notes, strconv.Itoa(m.ops),
		m.kinds,
	}, "\x00")
}

func unpackMeta(revision int64, packed string) (*meta, error) {
	parts := strings.Split(packed, "\x00")
	if len(parts) != 8 {
		return nil, fmt.Errorf("%w: change %d", errReply, revision)
	}
	m := &meta{
		revision: revision, namespace: parts[0], actor: parts[2], from: parts[3], action: parts[4], notes: parts[5],
		kinds: parts[7],
	}
	var err error
	if m.time, err = strconv.ParseInt(parts[1], 10, 64); err == nil {
		m.ops, err = strconv.Atoi(parts[6])
	}
	if err != nil {
		return nil, fmt.Errorf("%w: change %d: %w", errReply, revision, err)
	}
	return m, nil
}
