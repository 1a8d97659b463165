// Command grpc limits the calls of a gRPC server by the user that a call's metadata names.
package main

import (
	"context"
	"log"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/memstore"
)

// limitOf returns the key that a call is counted under, and the limit of that key. The number of open streams of a user
// is limited, and the rate of other calls.
func limitOf(ctx context.Context, method string) (string, headgate.Limit) {
	user := strings.Join(metadata.ValueFromIncomingContext(ctx, "x-user"), ",")
	if strings.HasSuffix(method, "/Watch") {
		return "streams of " + user, headgate.InFlight(2)
	}
	return "calls of " + user, headgate.MustParseLimit("5/s burst 3")
}

func newServer(limiter headgate.Limiter) *grpc.Server {
	limit := grpclimit.By(limiter, limitOf)
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	return server
}

func main() {
	store := memstore.MustNew(memstore.Options{})
	defer store.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:8090")
	if err != nil {
		log.Print(err)
		return
	}
	log.Print(newServer(store).Serve(listener))
}
