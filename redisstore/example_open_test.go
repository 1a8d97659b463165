package redisstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate/redisstore"
)

func ExampleOpen() {
	ctx := context.Background()
	_, err := redisstore.Open(ctx, "redis://:secret@10.0.0.1,10.0.0.2", redisstore.Options{})
	fmt.Println(err)
	_, err = redisstore.Open(ctx, "redis://localhost?timeout=1s", redisstore.Options{})
	fmt.Println(err)
	// Output:
	// redisstore: bad URL: several servers: want redis-cluster:// for a cluster, redis-sentinel:// for sentinels, or one server
	// redisstore: bad URL: unknown parameter "timeout": want one of db, protocol, dial_timeout, hang_timeout, tls, tls_server_name, tls_ca_file, tls_cert_file, tls_key_file, tls_insecure, sentinel_user, sentinel_password
}

func ExampleServerError() {
	// Nothing listens on this port.
	_, err := redisstore.Open(context.Background(), "redis://127.0.0.1:1", redisstore.Options{})
	var e *redisstore.ServerError
	if errors.As(err, &e) {
		fmt.Println("server:", e.Server)
		fmt.Println("problem:", e.Problem)
		fmt.Println("fix:", e.Fix)
		fmt.Println("was anything taken?", !errors.Is(err, redisstore.ErrUnreachable))
	}
	// Output:
	// server: 127.0.0.1:1
	// problem: is unreachable: nothing listens there
	// fix: start it, or check host and port in the URL; or set Options.StartUnreachable to start without Redis
	// was anything taken? false
}
