module github.com/headgate/headgate/examples/tenants

go 1.26.0

replace (
	github.com/headgate/headgate => ../../
	github.com/headgate/headgate/redisstore => ../../redisstore
)

require (
	github.com/headgate/headgate v0.1.0
	github.com/headgate/headgate/redisstore v0.1.0
)

require (
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
