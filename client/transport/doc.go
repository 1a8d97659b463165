// Package transport limits the HTTP requests that a program sends to other services.
//
//	t, err := transport.New(transport.Options{Limiter: store, Limit: headgate.PerSecond(10)})
//	if err != nil {
//		return nil, err
//	}
//	return &http.Client{Transport: t}, nil
//
// A [Transport] is an http.RoundTripper. Before it sends a request, it takes units from Options.Limit and respects
// the limits in the server's earlier responses: in RateLimit and RateLimit-Policy, in X-RateLimit-Limit and similar
// fields, and in Retry-After. A request that is over a limit is delayed, or fails with a [LimitedError].
package transport
