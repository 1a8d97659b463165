package envoyrls

import (
	"context"
	"fmt"
	"math"
	"slices"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// ReadRequest reads wire bytes as the server does, and returns them as a message of the generated code.
func ReadRequest(b []byte) (*rlspb.RateLimitRequest, error) {
	c := newCall(Limits{Descriptors: math.MaxInt, Entries: math.MaxInt})
	defer c.free()
	r := &c.request
	if err := r.UnmarshalWire(b); err != nil {
		return nil, err
	}
	m := &rlspb.RateLimitRequest{Domain: string([]byte(r.domain)), HitsAddend: r.hits}
	for i := range r.descriptors {
		d := &r.descriptors[i]
		made := &ratelimitpb.RateLimitDescriptor{IsNegativeHits: d.negative}
		for _, e := range c.entries(i) {
			made.Entries = append(made.Entries, &ratelimitpb.RateLimitDescriptor_Entry{Key: string([]byte(e.key)), Value: string([]byte(e.value))})
		}
		if d.override.present {
			made.Limit = &ratelimitpb.RateLimitDescriptor_RateLimitOverride{
				RequestsPerUnit: d.override.requests, Unit: typepb.RateLimitUnit(d.override.unit),
			}
			if d.override.multiplier != 0 {
				made.Limit.UnitMultiplier = wrapperspb.UInt32(d.override.multiplier)
			}
		}
		if d.hasHits {
			made.HitsAddend = wrapperspb.UInt64(d.hits)
		}
		m.Descriptors = append(m.Descriptors, made)
	}
	return m, nil
}

// A Call serves requests one after the other, as gRPC does.
type Call struct{ out []byte }

// Answer serves a request in wire bytes. The result is valid until the next call.
func (a *Call) Answer(ctx context.Context, s *Server, b []byte) ([]byte, error) {
	c := newCall(s.config.Limits)
	if err := c.request.UnmarshalWire(b); err != nil {
		return nil, err
	}
	r, err := s.shouldRateLimit(ctx, c)
	if err != nil {
		return nil, err
	}
	a.out, err = r.MarshalWire(a.out[:0])
	return a.out, err
}

// Probe uses a document, and finds each of its limits by matching entries.
func Probe(d *Document) error {
	t, err := compile([]*Document{d}, false)
	if err != nil {
		return err
	}
	return probe(t, d.Domain, d.Descriptors, nil)
}

func probe(t *table, domain string, list []Descriptor, before []entry) error {
	for i := range list {
		d := &list[i]
		at := slices.Concat(before, []entry{{d.Key, d.Value}})
		l, nodes := t.match(domain, at, nil)
		if d.Value != "" { // a wildcard may match the bare key first
			if (l != nil) != (d.rateLimit() != nil) || len(nodes) != len(at) {
				return fmt.Errorf("%v: got a limit %v, want %v", at, l, d.rateLimit())
			}
			if err := probe(t, domain, d.Descriptors, at); err != nil {
				return err
			}
		}
		if l != nil && !l.unlimited {
			if err := l.storeLimit.Validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Load reads the configuration at a path like a Server.
func Load(path string) ([]*Document, error) {
	texts, _, err := readFiles(path)
	if err != nil {
		return nil, err
	}
	return parseFiles(texts)
}
