module github.com/headgate/headgate/client

go 1.26.0

require (
	github.com/dunglas/httpsfv v1.1.2
	github.com/headgate/headgate v0.1.0
	github.com/headgate/headgate/proto v0.1.0
	github.com/headgate/headgate/redisstore v0.1.0
	github.com/sony/gobreaker/v2 v2.4.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b // indirect
)
