module github.com/headgate/headgate/grpclimit

go 1.26.0

require (
	github.com/headgate/headgate v0.1.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/dunglas/httpsfv v1.1.2 // indirect
	github.com/headgate/headgate/redisstore v0.1.0 // indirect
	github.com/headgate/headgate/rules/file v0.1.0 // indirect
	github.com/headgate/headgate/server v0.1.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
