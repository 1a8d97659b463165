// Package envoyrls answers Envoys that ask whether a request may pass: envoy.service.ratelimit.v3, by gRPC and by JSON.
//
//	s, err := envoyrls.New(envoyrls.Config{Path: "/etc/ratelimit", Store: store, CountDenied: true})
//	if err != nil { ... }
//	s.Register(grpcServer)          // whose codec is grpcwire.Codec
//	mux.Handle("/", s.Handler())    // POST /json, GET /healthcheck
//	go s.Watch(ctx)
//
// Limits come from files in the format of envoyproxy/ratelimit, see [Document], or else from rules, which see entries as
// attributes: descriptor.<key>, and the domain as the namespace.
//
// # Configuration
//
// An entry of a request's descriptor is compared, level by level, with the descriptors of the file: first those of the same
// key and value, then those whose value ends in '*' in the order of the file, then that of the key alone. The first that
// fits is gone into, and there is no way back. The limit is that of the last; a descriptor that ends before, or goes on, has
// none. Descriptors without a limit, and domains that are not there, pass.
//
// Each descriptor is decided on its own: it is over its limit if more than that was counted with it. All of a request are
// asked at once. The request is over if one of them is that is not in quota_mode, or if all that are in quota_mode are. What
// is denied counts if Config.CountDenied says so; if not, a request that is denied takes nothing, from no limit that it met
// but those in shadow_mode.
//
// A configuration that is wrong does not come into force; the one before stays.
package envoyrls
