package engine

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A lease is a text with which any node can release the slots that a request holds under concurrency limits. It
// consists of a version byte and the slots, in base64url. With the version leaseSealed the slots are encrypted; with
// leasePlain they are followed by a checksum.
const (
	leasePlain  = 1
	leaseSealed = 2
	maxSlots    = 1024 // maximum number of slots in a lease, so that a forged lease cannot keep a store busy
)

// castagnoli is for the checksums of leases. They detect accidental changes; they do not prevent forgery.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendLease appends a lease to dst, with which Engine.Release later releases the slots that the request holds under
// concurrency limits. Leases are for callers that cannot keep the verdict until the request has ended. If the request
// holds no slots, dst is unchanged.
//
// After AppendLease the caller may reuse the verdict, but must not call its methods Wait, Settle or Cancel. If the
// lease is neither released nor renewed with Engine.Renew, its slots expire after the TTL of their limits.
//
// The text is base64url. Engines that share a store need a Config.Secret: without one, leases can be forged, and should
// not be logged because they contain the client's attributes.
func (v *Verdict) AppendLease(dst []byte) []byte {
	if v.isDelayed {
		v.stopWaiting()
	}
	if !v.holdsUnits {
		return dst
	}
	start, slots := len(dst), 0
	for i := range v.checks {
		if !v.holdsSlot(i) || slots == maxSlots {
			continue
		}
		if slots++; slots == 1 {
			dst = append(dst, leasePlain)
		}
		dst = v.appendSlot(dst, i)
	}
	if slots == 0 {
		return dst
	}
	if s := v.engine.sealer; s != nil {
		dst[start] = leaseSealed
		dst = s.seal(dst, start, start+1)
	} else {
		dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	}
	end := len(dst)
	dst = base64.RawURLEncoding.AppendEncode(dst, dst[start:])
	return append(dst[:start], dst[end:]...) // replace the binary form by the text after it
}

// appendSlot appends the slot of a check in binary form. leaseReader.slot reads it.
func (v *Verdict) appendSlot(dst []byte, i int) []byte {
	c, info, r := &v.checks[i], &v.infos[i], &v.decisions[i].Receipt
	mode := rules.Exact
	if info.store == v.engine.stores.local {
		mode = rules.Local
	}
	dst = append(dst, byte(mode))
	for _, text := range []string{c.Key, c.Owner} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	for _, n := range []uint64{
		uint64(c.Split), uint64(c.Limit.Count), uint64(c.Limit.TTL.Microseconds()), uint64(r.Units), r.Lease,
	} {
		dst = binary.AppendUvarint(dst, n)
	}
	return binary.AppendVarint(dst, r.At)
}

// Release releases the slots of a lease that Verdict.AppendLease created, on this or another node. It returns ErrLease
// if the text is not a valid lease. Any other error lists the slots that could not be released. It is not an error if
// the lease has already been released, or its slots have expired. Slots that are counted in the memory of a process can
// be released only in that process. Like Settle, Release works even if ctx has ended.
func (e *Engine) Release(ctx context.Context, lease string) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	slots, err := e.readLease(lease)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followUpTimeout)
	defer cancel()
	var errs []error
	for i := range slots {
		s := &slots[i]
		if err := e.storeOf(s).Give(ctx, s.check, s.receipt); err != nil {
			errs = append(errs, fmt.Errorf("engine: release a slot: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Renew renews the slots of a lease for another TTL. A slot that has expired is taken again if there is room. held
// reports whether all slots are held now. ttl is the shortest TTL of the slots: call Renew again before it has passed,
// for as long as the request is served. If held is false, some slots may still be held, until they expire or the lease
// is released.
//
// Renew returns ErrLease for an invalid text. Any other error means that a store could not renew a slot, and the holder
// may call Renew again. Renew must not be called during or after a Release of the same lease: it would take the slots
// again.
func (e *Engine) Renew(ctx context.Context, lease string) (held bool, ttl time.Duration, err error) {
	if ctx == nil {
		return false, 0, headgate.ErrNilContext
	}
	slots, err := e.readLease(lease)
	if err != nil {
		return false, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, followUpTimeout)
	defer cancel()
	held, ttl = true, headgate.MaxPeriod
	var errs []error
	for i := range slots {
		s := &slots[i]
		ttl = min(ttl, ttlOf(&s.check.Limit))
		slotHeld, err := e.storeOf(s).Renew(ctx, s.check, s.receipt)
		if err != nil {
			errs = append(errs, fmt.Errorf("engine: renew a slot: %w", err))
		}
		held = held && slotHeld
	}
	return held, ttl, errors.Join(errs...)
}

// A heldSlot is a slot of a concurrency limit that a request holds.
type heldSlot struct {
	mode    rules.Consistency // Exact, or Local for the store in this process
	check   headgate.Check
	receipt headgate.Receipt
}

// storeOf returns the store that counts a slot.
func (e *Engine) storeOf(s *heldSlot) *store {
	return &e.stores.list[e.stores.byMode[rules.ScopeRegion][s.mode]]
}

// readLease returns the slots of a lease.
func (e *Engine) readLease(lease string) ([]heldSlot, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(lease)
	if err != nil {
		return nil, ErrLease
	}
	encoded, ok := e.unwrap(b)
	if !ok {
		return nil, ErrLease
	}
	r := leaseReader{rest: encoded}
	var slots []heldSlot
	for len(r.rest) > 0 {
		s := r.slot()
		if r.failed || len(slots) == maxSlots || s.validate() != nil {
			return nil, ErrLease
		}
		slots = append(slots, s)
	}
	if slots == nil {
		return nil, ErrLease
	}
	return slots, nil
}

// unwrap decrypts a decoded lease, or verifies its checksum, and returns its slots in binary form. It returns false if
// the lease is invalid.
func (e *Engine) unwrap(b []byte) ([]byte, bool) {
	switch {
	case len(b) == 0:
		return nil, false
	case e.sealer != nil: // unencrypted leases are refused
		if b[0] != leaseSealed {
			return nil, false
		}
		return e.sealer.open(b[:1], b[1:])
	case b[0] != leasePlain || len(b) < 5:
		return nil, false
	}
	content, sum := b[:len(b)-4], b[len(b)-4:]
	return content[1:], crc32.Checksum(content, castagnoli) == binary.BigEndian.Uint32(sum)
}

func (s *heldSlot) validate() error {
	if s.mode != rules.Exact && s.mode != rules.Local || s.receipt.Lease == 0 {
		return ErrLease
	}
	if err := s.check.Validate(); err != nil {
		return err
	}
	return headgate.ValidateRefund(s.check.Cost, s.receipt)
}

// A leaseReader reads the slots of a lease. After an error it returns only zero values.
type leaseReader struct {
	rest   []byte
	failed bool
}

// slot reads a slot, as Verdict.appendSlot writes it. Numbers that are too large become invalid ones, not smaller ones.
func (r *leaseReader) slot() (s heldSlot) {
	s.mode = rules.Consistency(r.rest[0])
	r.rest = r.rest[1:]
	s.check.Key, s.check.Owner = r.text(), r.text()
	s.check.Split = int(min(r.number(), headgate.MaxSplit+1))
	s.check.Limit = headgate.Limit{Algorithm: headgate.Concurrency, Count: int64(r.number())}
	s.check.Limit.TTL = time.Duration(min(r.number(), uint64(headgate.MaxPeriod.Microseconds()+1))) * time.Microsecond
	s.receipt.Units, s.receipt.Lease = int64(r.number()), r.number()
	s.check.Cost = s.receipt.Units
	at, n := binary.Varint(r.rest)
	r.skip(n)
	s.receipt.At = at
	return s
}

func (r *leaseReader) number() uint64 {
	x, n := binary.Uvarint(r.rest)
	r.skip(n)
	return x
}

func (r *leaseReader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.skip(0) // the reader fails
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

// skip removes a number whose encoding has n bytes from the rest. If n ≤ 0, there is no valid number, and the reader
// fails.
func (r *leaseReader) skip(n int) {
	if n <= 0 {
		r.failed, r.rest = true, nil
		return
	}
	r.rest = r.rest[n:]
}
