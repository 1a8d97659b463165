// Package envoyrls implements Envoy's rate limit service, envoy.service.ratelimit.v3, over gRPC and JSON.
//
//	s, err := envoyrls.New(envoyrls.Config{Path: "/etc/ratelimit", Store: store, CountDenied: true})
//	if err != nil { ... }
//	s.Register(grpcServer)          // its codec must be grpcwire.Codec
//	mux.Handle("/", s.Handler())    // POST /json, GET /healthcheck
//	go s.Watch(ctx)
//
// Limits come from files in the format of envoyproxy/ratelimit; see [Document]. Without files, Headgate's rules decide:
// each descriptor entry is the attribute descriptor.<key>, and the domain is the namespace.
//
// # Configuration
//
// The file has a tree of descriptors. The entries of a request's descriptor are matched with the tree level by level:
// first by equal key and value, then by patterns with '*' in the order of the file, then by the key alone. The first
// match at each level is used; there is no backtracking. The limit of the last level applies. A descriptor with fewer
// or more entries than the matching branch has no limit. Descriptors without a limit and unknown domains are allowed.
//
// All descriptors of a request are decided at the same time, independently of each other. A request is over the limit
// if any descriptor outside quota_mode is over its limit, or if all descriptors in quota_mode are. If
// Config.CountDenied is set, denied requests consume units too. Otherwise a denied request consumes nothing, except
// from limits in shadow_mode.
//
// An invalid configuration is refused, and the previous one stays in use.
package envoyrls
