package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Limits of the content of a DB.
const (
	MaxOps  = 100_000        // operations of a change
	MaxID   = 512            // bytes of an ID, a namespace or a bucket
	MaxBody = MaxLine - 4096 // bytes of a body, which must fit with its Item in a line of a snapshot
	MaxText = 4096           // bytes of each of a change's actor, address, action and note
)

// ErrInvalid means that a change or a state is invalid in itself: no database accepts it.
var ErrInvalid = errors.New("cannot be stored")

// Kinds returns all kinds, in the order of snapshots.
func Kinds() []Kind {
	return []Kind{KindRule, KindClient, KindOverride, KindSuspension, KindToken, KindWebhook, KindEvent}
}

// Validate returns an error that wraps ErrInvalid if the change is invalid. Every DB calls Validate first.
func (c *Change) Validate() error {
	if err := checkID("namespace", c.Namespace); err != nil {
		return err
	}
	for _, text := range []string{c.Actor, c.From, c.Action, c.Note} {
		if len(text) > MaxText || !IsText(text) {
			return fmt.Errorf("%w: actor, address, action and note: want UTF-8 without NUL, at most %d bytes",
				ErrInvalid, MaxText)
		}
	}
	if len(c.Ops) == 0 || len(c.Ops) > MaxOps {
		return fmt.Errorf("%w: a change of %d objects: want 1 to %d", ErrInvalid, len(c.Ops), MaxOps)
	}
	if c.Base < AnyRevision {
		return fmt.Errorf("%w: base %d", ErrInvalid, c.Base)
	}
	type name struct {
		kind Kind
		id   string
	}
	seen := make(map[name]bool, len(c.Ops))
	for i := range c.Ops {
		op := &c.Ops[i]
		if err := op.validate(); err != nil {
			return err
		}
		if seen[name{op.Kind, op.ID}] {
			return fmt.Errorf("%w: %s %q is in one change twice", ErrInvalid, op.Kind, op.ID)
		}
		seen[name{op.Kind, op.ID}] = true
	}
	return nil
}

func (op *Op) validate() error {
	if !slices.Contains(Kinds(), op.Kind) {
		return fmt.Errorf("%w: kind %q", ErrInvalid, op.Kind)
	}
	if err := checkID("id", op.ID); err != nil {
		return err
	}
	switch {
	case op.Base < AnyRevision:
		return fmt.Errorf("%w: %s %q: base %d", ErrInvalid, op.Kind, op.ID, op.Base)
	case op.Body == nil && op.Base == Absent:
		return fmt.Errorf("%w: %s %q is to be deleted, but must not exist", ErrInvalid, op.Kind, op.ID)
	case op.Body == nil:
		return nil
	}
	return checkBody(string(op.Kind)+" "+op.ID, op.Body)
}

// Validate returns an error that wraps ErrInvalid if the state is invalid. Every DB calls Validate first.
func (s *State) Validate() error {
	if err := checkID("bucket", s.Bucket); err != nil {
		return err
	}
	if err := checkID("id", s.ID); err != nil {
		return err
	}
	return checkBody(s.Bucket+" "+s.ID, s.Body)
}

func checkID(field, id string) error {
	if id == "" || len(id) > MaxID || !IsText(id) {
		return fmt.Errorf("%w: %s %.64q: want UTF-8 without NUL, 1 to %d bytes", ErrInvalid, field, id, MaxID)
	}
	return nil
}

func checkBody(object string, body []byte) error {
	if len(body) > MaxBody {
		return fmt.Errorf("%w: %s: %d bytes, want at most %d", ErrInvalid, object, len(body), MaxBody)
	}
	if !utf8.Valid(body) || !json.Valid(body) {
		return fmt.Errorf("%w: %s: its body is not valid JSON", ErrInvalid, object)
	}
	return nil
}
