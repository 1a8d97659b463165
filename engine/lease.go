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

// A lease is what is needed to release the places that a request holds under concurrency limits, on whatever host, after the
// verdict is gone: a version and the places, sealed or with a checksum, in base64url.
const (
	leasePlain  = 1
	leaseSealed = 2
	maxPlaces   = 1024 // in one lease; a text that somebody made up must not keep a store busy
)

// castagnoli sums leases up. It finds texts that were cut or mixed up, and is no proof of who made them.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendLease appends to dst a text by which Engine.Release gives back the places that the request holds under concurrency
// limits; dst as it is if it holds none. It is for callers who cannot keep the verdict until the request has ended. Who has
// handed the text out calls neither Wait, Settle nor Cancel; the verdict can be used again. A lease that nobody releases ends
// after the TTL of its limits.
//
// The text is of base64url's letters. Without a Config.Secret that hosts who share a store need, it is not for logs: the
// attributes that the client is counted by can be read in it, and who knows its form can make one.
func (v *Verdict) AppendLease(dst []byte) []byte {
	if v.waits {
		v.leave()
	}
	if !v.holds {
		return dst
	}
	start, places := len(dst), 0
	for i := range v.checks {
		if v.checks[i].Limit.Algorithm != headgate.Concurrency || v.decisions[i].Receipt.Units == 0 || places == maxPlaces {
			continue
		}
		if places++; places == 1 {
			dst = append(dst, leasePlain)
		}
		dst = v.appendPlace(dst, i)
	}
	if places == 0 {
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

// appendPlace appends what a check holds.
func (v *Verdict) appendPlace(dst []byte, i int) []byte {
	c, a, r := &v.checks[i], &v.asked[i], &v.decisions[i].Receipt
	mode := rules.Exact
	if a.store == v.engine.stores.local {
		mode = rules.Local
	}
	dst = append(dst, byte(mode))
	for _, text := range []string{c.Key, c.Owner} {
		dst = append(binary.AppendUvarint(dst, uint64(len(text))), text...)
	}
	for _, n := range []uint64{uint64(c.Split), uint64(c.Limit.Count), uint64(c.Limit.TTL.Microseconds()), uint64(r.Units), r.Lease} {
		dst = binary.AppendUvarint(dst, n)
	}
	return binary.AppendVarint(dst, r.At)
}

// Release gives back the places of a lease, which a verdict of this or another host's engine has written. It returns
// ErrLease for a text that is none. A lease that was released, or whose time is over, is no error. Places that were counted
// in a process can only be released there. What ctx has come to does not matter, as with Settle. Any other error says what
// could not be given back.
func (e *Engine) Release(ctx context.Context, lease string) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	places, err := e.readLease(lease)
	if err != nil {
		return err
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), afterTime)
	defer end()
	var errs []error
	for i := range places {
		p := &places[i]
		if err := e.stores.list[e.stores.byMode[rules.ScopeRegion][p.mode]].Give(ctx, p.check, p.receipt); err != nil {
			errs = append(errs, fmt.Errorf("engine: release a place: %w", err))
		}
	}
	return errors.Join(errs...)
}

// A heldPlace is one under a concurrency limit.
type heldPlace struct {
	mode    rules.Consistency
	check   headgate.Check
	receipt headgate.Receipt
}

// readLease returns the places of a lease.
func (e *Engine) readLease(lease string) ([]heldPlace, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(lease)
	if err != nil {
		return nil, ErrLease
	}
	text, ok := e.unwrap(b)
	if !ok {
		return nil, ErrLease
	}
	r := leaseReader{left: text}
	var places []heldPlace
	for len(r.left) > 0 {
		p := r.place()
		if r.bad || len(places) == maxPlaces || p.validate() != nil {
			return nil, ErrLease
		}
		places = append(places, p)
	}
	if places == nil {
		return nil, ErrLease
	}
	return places, nil
}

// unwrap returns the places of a lease in their binary form.
func (e *Engine) unwrap(b []byte) ([]byte, bool) {
	switch {
	case len(b) == 0:
		return nil, false
	case e.sealer != nil: // then no other is believed
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

func (p *heldPlace) validate() error {
	if p.mode != rules.Exact && p.mode != rules.Local || p.receipt.Lease == 0 {
		return ErrLease
	}
	if err := p.check.Validate(); err != nil {
		return err
	}
	return headgate.ValidateRefund(p.check.Cost, p.receipt)
}

// A leaseReader reads a lease. Once it is bad, all that it reads is nothing.
type leaseReader struct {
	left []byte
	bad  bool
}

func (r *leaseReader) place() (p heldPlace) {
	p.mode = rules.Consistency(r.left[0])
	r.left = r.left[1:]
	p.check.Key, p.check.Owner = r.text(), r.text()
	p.check.Split = int(min(r.number(), headgate.MaxSplit+1))
	p.check.Limit = headgate.Limit{Algorithm: headgate.Concurrency, Count: int64(r.number())}
	p.check.Limit.TTL = time.Duration(min(r.number(), uint64(headgate.MaxPeriod.Microseconds()+1))) * time.Microsecond
	p.receipt.Units, p.receipt.Lease = int64(r.number()), r.number()
	p.check.Cost = p.receipt.Units
	at, n := binary.Varint(r.left)
	r.skip(n)
	p.receipt.At = at
	return p
}

func (r *leaseReader) number() uint64 {
	x, n := binary.Uvarint(r.left)
	r.skip(n)
	return x
}

func (r *leaseReader) text() string {
	n := r.number()
	if n > uint64(len(r.left)) {
		r.skip(0)
		return ""
	}
	text := string(r.left[:n])
	r.left = r.left[n:]
	return text
}

// skip goes on behind a number of n bytes.
func (r *leaseReader) skip(n int) {
	if n <= 0 {
		r.bad, r.left = true, nil
		return
	}
	r.left = r.left[n:]
}
