package grpcwire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/proto/grpcwire"
)

// raw is a message that is its bytes.
type raw struct {
	b   []byte
	err error
}

func (r *raw) MarshalWire(dst []byte) ([]byte, error) { return append(dst, r.b...), r.err }

func (r *raw) UnmarshalWire(b []byte) error {
	r.b = append(r.b[:0], b...)
	return r.err
}

func TestOwnMessagesComeBackWhateverTheirSize(t *testing.T) {
	for _, size := range []int{0, 1, 1023, 1024, 1025, 2048, 2049, 65 << 10, 1 << 20} {
		for range 3 { // the pool hands out what earlier rounds left
			want := bytes.Repeat([]byte{byte(size), 0xa5, 3}, size/3+1)[:size]
			data, err := grpcwire.Codec.Marshal(&raw{b: want})
			if err != nil {
				t.Fatal(err)
			}
			var got raw
			if err := grpcwire.Codec.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			data.Free()
			if !bytes.Equal(got.b, want) {
				t.Fatalf("%d bytes: got %d others", size, len(got.b))
			}
		}
	}
}

func TestMessagesInPiecesArePutTogether(t *testing.T) {
	var got raw
	pieces := mem.BufferSlice{mem.SliceBuffer("one "), mem.SliceBuffer("two "), mem.SliceBuffer("three")}
	if err := grpcwire.Codec.Unmarshal(pieces, &got); err != nil {
		t.Fatal(err)
	}
	if want := "one two three"; string(got.b) != want {
		t.Errorf("got %q, want %q", got.b, want)
	}
	if err := grpcwire.Codec.Unmarshal(nil, &got); err != nil || len(got.b) != 0 {
		t.Errorf("no piece: got %q, %v; want an empty message", got.b, err)
	}
}

func TestGeneratedMessagesAreOnTheWireAsTheLibraryWritesThem(t *testing.T) {
	m := wrapperspb.String(strings.Repeat("x", 5000))
	want, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	data, err := grpcwire.Codec.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Free()
	if got := data.Materialize(); !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want the library's %d", len(got), len(want))
	}
	back := new(wrapperspb.StringValue)
	if err := grpcwire.Codec.Unmarshal(data, back); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(back, m) {
		t.Errorf("got %v, want %v", back, m)
	}
}

func TestFaultsNameTheMessage(t *testing.T) {
	fault := errors.New("fault")
	if _, err := grpcwire.Codec.Marshal(&raw{err: fault}); !errors.Is(err, fault) {
		t.Errorf("marshal: got %v, want the message's own error", err)
	}
	if err := grpcwire.Codec.Unmarshal(nil, &raw{err: fault}); !errors.Is(err, fault) {
		t.Errorf("unmarshal: got %v, want the message's own error", err)
	}
	if err := grpcwire.Codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer{0x0a, 9}}, new(wrapperspb.StringValue)); err == nil {
		t.Error("unmarshal of half a message: got no error")
	}
	if _, err := grpcwire.Codec.Marshal("text"); err == nil || !strings.Contains(err.Error(), "string") {
		t.Errorf("marshal of a string: got %v, want an error that names its type", err)
	}
	if err := grpcwire.Codec.Unmarshal(nil, new(int)); err == nil || !strings.Contains(err.Error(), "*int") {
		t.Errorf("unmarshal into an *int: got %v, want an error that names its type", err)
	}
}
