// Package envoyrls implements Envoy's rate limit service, envoy.service.ratelimit.v3, over gRPC and JSON.
//
//	s, err := envoyrls.New(envoyrls.Config{Path: "/etc/ratelimit", Store: store, CountDenied: true})
//	if err != nil { ... }
//	s.Register(grpcServer)          // its codec must be grpcwire.Codec
//	mux.Handle("/", s.Handler())    // POST /json, GET /healthcheck
//	go s.Watch(ctx)
//
// Limits come from files in the format of envoyproxy/ratelimit, see [Document]. Without files, rules decide: they see
// each entry as the attribute descriptor.<key>, and the domain as the namespace.
//
// # Configuration
//
// The entries of a request's descriptor are matched level by level with the descriptors of the file: first by equal
// key and value, then by patterns with '*' in the order of the file, then by the key alone. The first match is taken;
// there is no backtracking. The limit of the last match applies. A descriptor with fewer or more entries than the file
// has no limit. Descriptors without a limit and unknown domains pass.
//
// Each descriptor is decided on its own, all of a request at the same time. A request is over the limit if one
// descriptor that is not in quota_mode is, or if all descriptors in quota_mode are. Denied requests count if
// Config.CountDenied is set. Otherwise a denied request takes nothing, except from limits in shadow_mode.
//
// An invalid configuration does not come into force; the previous one stays.
package envoyrls
