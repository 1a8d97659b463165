package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// testService is a gRPC service that returns what it was sent.
type testService struct {
	pb.UnimplementedTestServiceServer
}

func (testService) UnaryCall(ctx context.Context, in *pb.SimpleRequest) (*pb.SimpleResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if err := grpc.SetHeader(ctx, metadata.Pairs("x-for", strings.Join(md["x-forwarded-for"], "|"), "x-te", strings.Join(md["te"], "|"))); err != nil {
		return nil, err
	}
	if err := grpc.SetTrailer(ctx, metadata.Pairs("x-tokens-used", "42")); err != nil {
		return nil, err
	}
	if s := in.GetResponseStatus(); s != nil {
		return nil, status.Error(codes.Code(s.GetCode()), s.GetMessage())
	}
	return &pb.SimpleResponse{Payload: in.GetPayload()}, nil
}

func (testService) FullDuplexCall(stream grpc.BidiStreamingServer[pb.StreamingOutputCallRequest, pb.StreamingOutputCallResponse]) error {
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&pb.StreamingOutputCallResponse{Payload: in.GetPayload()}); err != nil {
			return err
		}
	}
}

func serveGRPC(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterTestServiceServer(s, testService{})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "h2c://" + l.Addr().String()
}

func TestGRPCPassesThrough(t *testing.T) {
	t.Parallel()
	c := before(serveGRPC(t))
	c.BodyTimeout = time.Second // calls are streams, which may be silent for longer
	c.WriteTimeout = time.Second
	c.Limit = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Plan") == "none" {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	g := start(t, c)
	conn, err := grpc.NewClient(addrOf(g), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := pb.NewTestServiceClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	t.Run("a call", func(t *testing.T) {
		for _, size := range []int{0, 1, 100_000, 1_000_000} {
			var header, trailer metadata.MD
			out, err := client.UnaryCall(ctx, &pb.SimpleRequest{Payload: &pb.Payload{Body: make([]byte, size)}}, grpc.Header(&header), grpc.Trailer(&trailer))
			if err != nil || len(out.GetPayload().GetBody()) != size {
				t.Fatalf("%d bytes: got %d, %v", size, len(out.GetPayload().GetBody()), err)
			}
			if got := trailer.Get("x-tokens-used"); len(got) != 1 || got[0] != "42" {
				t.Errorf("trailer %v", trailer)
			}
			if got := header.Get("x-for"); len(got) != 1 || got[0] != "127.0.0.1" {
				t.Errorf("header %v, want x-forwarded-for", header)
			}
		}
	})
	t.Run("an error", func(t *testing.T) {
		_, err := client.UnaryCall(ctx, &pb.SimpleRequest{ResponseStatus: &pb.EchoStatus{Code: int32(codes.AlreadyExists), Message: "it is there"}})
		if s := status.Convert(err); s.Code() != codes.AlreadyExists || s.Message() != "it is there" {
			t.Errorf("got %v, want that it is there already", err)
		}
	})
	t.Run("a stream both ways", func(t *testing.T) {
		stream, err := client.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			if i > 1 {
				time.Sleep(1200 * time.Millisecond) // longer than BodyTimeout and WriteTimeout
			}
			body := strings.Repeat("x", i*10_000+1)
			if err := stream.Send(&pb.StreamingOutputCallRequest{Payload: &pb.Payload{Body: []byte(body)}}); err != nil {
				t.Fatal(err)
			}
			in, err := stream.Recv()
			if err != nil || string(in.GetPayload().GetBody()) != body {
				t.Fatalf("got %d bytes, %v, want %d", len(in.GetPayload().GetBody()), err, len(body))
			}
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("at the end %v, want EOF", err)
		}
	})
	t.Run("a call that is rejected", func(t *testing.T) {
		_, err := client.UnaryCall(metadata.AppendToOutgoingContext(ctx, "x-plan", "none"), &pb.SimpleRequest{})
		if code := status.Code(err); code != codes.Unavailable { // what gRPC makes of 429
			t.Errorf("got %v, want it to be unavailable", err)
		}
	})
	t.Run("a method that is missing", func(t *testing.T) {
		_, err := client.EmptyCall(ctx, &pb.Empty{})
		if code := status.Code(err); code != codes.Unimplemented {
			t.Errorf("got %v, want it unimplemented", err)
		}
	})
}
