package grpcapi

import (
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// Reflection lists services and methods for callers without the protos, such as grpcurl.
func TestReflectionListsServices(t *testing.T) {
	_, address := start(t, Config{Store: newStore(t, nil)})
	stream, err := grpc_reflection_v1.NewServerReflectionClient(dial(t, address)).ServerReflectionInfo(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	asked := func(r *grpc_reflection_v1.ServerReflectionRequest) *grpc_reflection_v1.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	list := asked(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	var names []string
	for _, s := range list.GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	for _, want := range []string{"headgate.v1.RateLimiter", "headgate.v1.Store", "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("services: got %q, want %s among them", names, want)
		}
	}
	got := asked(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "headgate.v1.RateLimiter"},
	})
	var methods []string
	for _, text := range got.GetFileDescriptorResponse().GetFileDescriptorProto() {
		var f descriptorpb.FileDescriptorProto
		if err := proto.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		for _, s := range f.Service {
			for _, m := range s.Method {
				methods = append(methods, m.GetName())
			}
		}
	}
	methods = slices.DeleteFunc(methods, func(name string) bool { return name == batchStream }) // that of our own client
	if want := []string{"RateLimit", "BatchRateLimit", "Stream", "Release", "Renew"}; !slices.Equal(methods, want) {
		t.Errorf("methods: got %q, want %q", methods, want)
	}
}

// Every method of the protos is served, and no other.
func TestAllMethodsAreServed(t *testing.T) {
	for _, of := range []struct{ ours, generated grpc.ServiceDesc }{
		{rateLimiterDesc, headgatev1.RateLimiter_ServiceDesc}, {storeDesc, headgatev1.Store_ServiceDesc},
	} {
		names := func(d grpc.ServiceDesc) (all []string) {
			for _, m := range d.Methods {
				all = append(all, m.MethodName)
			}
			for _, s := range d.Streams {
				all = append(all, s.StreamName)
			}
			slices.Sort(all)
			return all
		}
		want := names(of.generated)
		if of.ours.ServiceName == rateLimiterDesc.ServiceName && !slices.Contains(want, batchStream) {
			want = append(want, batchStream) // that of our own client
			slices.Sort(want)
		}
		if got := names(of.ours); !slices.Equal(got, want) || of.ours.ServiceName != of.generated.ServiceName {
			t.Errorf("%s: got %q, want %q", of.generated.ServiceName, got, want)
		}
	}
}
