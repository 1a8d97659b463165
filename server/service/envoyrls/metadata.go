package envoyrls

import (
	"strconv"

	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate/proto/grpcwire"
)

// hasMetadata reports whether a limit that applies and is not exceeded has metadata.
func (c *rateLimitCall) hasMetadata() bool {
	for i := range c.outcomes {
		if l := c.outcomes[i].limit; l != nil && l.metadata != nil && c.statuses[i].code == ok {
			return true
		}
	}
	return false
}

// appendMetadata appends dynamic_metadata to the response, in the form of envoyproxy/ratelimit:
//
//	{"domain": …, "descriptors": [{"entries": ["key=value"], "limit": …, "hitsAddend": …}],
//	 "hitsAddend": …, "metadata": {…}}
//
// "metadata" merges the metadata of the limits that are not exceeded.
func (c *rateLimitCall) appendMetadata() error {
	r := &c.request
	fields := map[string]*structpb.Value{"domain": structpb.NewStringValue(r.domain)}
	descriptors := make([]*structpb.Value, len(r.descriptors))
	merged := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := range r.descriptors {
		descriptors[i] = structpb.NewStructValue(&structpb.Struct{Fields: c.describe(i)})
		if l := c.outcomes[i].limit; l != nil && l.metadata != nil && c.statuses[i].code == ok {
			merge(merged, l.metadata)
		}
	}
	fields["descriptors"] = structpb.NewListValue(&structpb.ListValue{Values: descriptors})
	if r.hits > 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(r.hits))
	}
	if len(merged.Fields) > 0 {
		fields["metadata"] = structpb.NewStructValue(merged)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&structpb.Struct{Fields: fields})
	if err != nil { // unreachable: keys and values were checked for UTF-8
		return grpcstatus.Errorf(codes.Internal, "write dynamic_metadata: %v", err)
	}
	c.reply.encoded = grpcwire.AppendText(c.reply.encoded, 6, data)
	return nil
}

// describe returns the fields of a descriptor for dynamic_metadata.
func (c *rateLimitCall) describe(i int) map[string]*structpb.Value {
	d := &c.request.descriptors[i]
	entries := make([]*structpb.Value, 0, d.to-d.from)
	for _, e := range c.entries(i) {
		entries = append(entries, structpb.NewStringValue(e.key+"="+e.value))
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if d.override.present {
		fields["limit"] = structpb.NewStringValue(d.override.String())
	}
	if d.hasHits {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(d.hits))
	}
	return fields
}

// String returns the override as the text form of its protobuf message.
func (o *override) String() string {
	text := ""
	if o.requests != 0 {
		text = "requests_per_unit:" + strconv.FormatUint(uint64(o.requests), 10) + " "
	}
	text += "unit:" + typepb.RateLimitUnit(o.unit).String()
	if o.multiplier != 0 {
		text += " unit_multiplier:{value:" + strconv.FormatUint(uint64(o.multiplier), 10) + "}"
	}
	return text
}

// merge adds the fields of from to into, except those that into already has. Mappings that both have are merged
// recursively.
func merge(dst, src *structpb.Struct) {
	for name, value := range src.GetFields() {
		existing, found := dst.Fields[name]
		switch {
		case !found && value.GetStructValue() != nil: // copy it, because the original belongs to the configuration
			inner := &structpb.Struct{Fields: map[string]*structpb.Value{}}
			merge(inner, value.GetStructValue())
			dst.Fields[name] = structpb.NewStructValue(inner)
		case !found:
			dst.Fields[name] = value
		case existing.GetStructValue() != nil && value.GetStructValue() != nil:
			merge(existing.GetStructValue(), value.GetStructValue())
		}
	}
}
