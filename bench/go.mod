module github.com/headgate/headgate/bench

go 1.26.8

replace github.com/headgate/headgate => ../

require (
	github.com/benbjohnson/clock v1.3.0 // indirect
	github.com/didip/tollbooth/v7 v7.0.2 // indirect
	github.com/go-chi/httprate v0.16.1 // indirect
	github.com/go-pkgz/expirable-cache/v3 v3.0.0 // indirect
	github.com/juju/ratelimit v1.0.2 // indirect
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/sethvargo/go-limiter v0.7.1 // indirect
	github.com/throttled/throttled/v2 v2.15.0 // indirect
	github.com/ulule/limiter/v3 v3.11.2 // indirect
	github.com/zeebo/xxh3 v1.0.2 // indirect
	go.uber.org/ratelimit v0.3.1 // indirect
	golang.org/x/sys v0.30.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
