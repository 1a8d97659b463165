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

// A lease contains everything needed to release the slots that a request holds under concurrency limits, on any node
// and without the verdict: a version and the slots, encrypted or with a checksum, in base64url.
const (
	leasePlain  = 1
	leaseSealed = 2
	maxSlots    = 1024 // in one lease, so that a forged text cannot keep a store busy
)

// castagnoli is for the checksums of leases. They detect accidental changes, and prove no origin.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendLease appends a text to dst by which Engine.Release releases the slots that the request holds under concurrency
// limits; dst is unchanged if it holds none. It is for callers that cannot keep the verdict until the request has
// ended. After handing the text out, the caller must not call Wait, Settle or Cancel; the verdict can be reused. A
// lease that is never released expires after the TTL of its limits, unless Engine.Renew renews it.
//
// The text is base64url. Engines that share a store need a Config.Secret; without one the text should not be logged,
// because it contains the client's attributes and can be forged.
func (v *Verdict) AppendLease(dst []byte) []byte {
	if v.isDelayed {
		v.stopWaiting()
	}
	if !v.holdsUnits {
		return dst
	}
	start, slots := len(dst), 0
	for i := range v.checks {
		if v.checks[i].Limit.Algorithm != headgate.Concurrency || v.decisions[i].Receipt.Units == 0 || slots == maxSlots {
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
	n := len(dst)
	dst = base64.RawURLEncoding.AppendEncode(dst, dst[start:])
	return append(dst[:start], dst[n:]...)
}

// appendSlot appends the slot of a check.
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

// Release releases the slots of a lease that a verdict of an engine on this or another node has written. It returns
// ErrLease for an invalid text. A lease that was released or has expired is no error. Slots that were counted in a
// process can only be released there. Like Settle, it works even if ctx has ended. Any other error lists the slots that
// could not be released.
func (e *Engine) Release(ctx context.Context, lease string) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	slots, err := e.readLease(lease)
	if err != nil {
		return err
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer end()
	var errs []error
	for i := range slots {
		p := &slots[i]
		if err := e.stores.list[e.stores.byMode[rules.ScopeRegion][p.mode]].Give(ctx, p.check, p.receipt); err != nil {
			errs = append(errs, fmt.Errorf("engine: release a slot: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Renew renews the slots of a lease for another TTL. It reports whether all of them are held, and the shortest of their
// TTLs: a holder calls Renew again before it has passed, for as long as it serves its request. A slot that has expired
// is taken again if there is room. It returns ErrLease for an invalid text. Any other error means that a store did not
// renew a slot, which the holder may retry. If not all are held, the others stay held until they expire or the lease is
// released. Renew must not be called at the same time as Release for the same lease, or afterwards: it would take the
// slots again.
func (e *Engine) Renew(ctx context.Context, lease string) (held bool, ttl time.Duration, err error) {
	if ctx == nil {
		return false, 0, headgate.ErrNilContext
	}
	slots, err := e.readLease(lease)
	if err != nil {
		return false, 0, err
	}
	ctx, end := context.WithTimeout(ctx, cleanupTimeout)
	defer end()
	held, ttl = true, headgate.MaxPeriod
	var errs []error
	for i := range slots {
		p := &slots[i]
		ttl = min(ttl, ttlOf(&p.check.Limit))
		ok, err := e.stores.list[e.stores.byMode[rules.ScopeRegion][p.mode]].Renew(ctx, p.check, p.receipt)
		if err != nil {
			errs = append(errs, fmt.Errorf("engine: renew a slot: %w", err))
		}
		held = held && ok
	}
	return held, ttl, errors.Join(errs...)
}

// A heldSlot is a slot of a concurrency limit.
type heldSlot struct {
	mode    rules.Consistency
	check   headgate.Check
	receipt headgate.Receipt
}

// readLease returns the slots of a lease.
func (e *Engine) readLease(lease string) ([]heldSlot, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(lease)
	if err != nil {
		return nil, ErrLease
	}
	text, ok := e.unwrap(b)
	if !ok {
		return nil, ErrLease
	}
	r := leaseReader{rest: text}
	var slots []heldSlot
	for len(r.rest) > 0 {
		p := r.slot()
		if r.failed || len(slots) == maxSlots || p.validate() != nil {
			return nil, ErrLease
		}
		slots = append(slots, p)
	}
	if slots == nil {
		return nil, ErrLease
	}
	return slots, nil
}

// unwrap returns the slots of a lease in binary form.
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
	text, sum := b[:len(b)-4], b[len(b)-4:]
	return text[1:], crc32.Checksum(text, castagnoli) == binary.BigEndian.Uint32(sum)
}

func (p *heldSlot) validate() error {
	if p.mode != rules.Exact && p.mode != rules.Local || p.receipt.Lease == 0 {
		return ErrLease
	}
	if err := p.check.Validate(); err != nil {
		return err
	}
	return headgate.ValidateRefund(p.check.Cost, p.receipt)
}

// A leaseReader reads a lease. After an error it returns only zero values.
type leaseReader struct {
	rest   []byte
	failed bool
}

func (r *leaseReader) slot() (p heldSlot) {
	p.mode = rules.Consistency(r.rest[0])
	r.rest = r.rest[1:]
	p.check.Key, p.check.Owner = r.text(), r.text()
	p.check.Split = int(min(r.number(), headgate.MaxSplit+1))
	p.check.Limit = headgate.Limit{Algorithm: headgate.Concurrency, Count: int64(r.number())}
	p.check.Limit.TTL = time.Duration(min(r.number(), uint64(headgate.MaxPeriod.Microseconds()+1))) * time.Microsecond
	p.receipt.Units, p.receipt.Lease = int64(r.number()), r.number()
	p.check.Cost = p.receipt.Units
	at, n := binary.Varint(r.rest)
	r.skip(n)
	p.receipt.At = at
	return p
}

func (r *leaseReader) number() uint64 {
	x, n := binary.Uvarint(r.rest)
	r.skip(n)
	return x
}

func (r *leaseReader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.skip(0)
		return ""
	}
	text := string(r.rest[:n])
	r.rest = r.rest[n:]
	return text
}

// skip skips a number of n bytes.
func (r *leaseReader) skip(n int) {
	if n <= 0 {
		r.failed, r.rest = true, nil
		return
	}
	r.rest = r.rest[n:]
}
