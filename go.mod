module github.com/headgate/headgate

go 1.26.0

require (
	github.com/dunglas/httpsfv v1.1.2
	github.com/headgate/headgate/redisstore v0.1.0
	github.com/headgate/headgate/rules/file v0.1.0
	github.com/headgate/headgate/server v0.1.0
)

require (
	github.com/dchest/siphash v1.2.3 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
