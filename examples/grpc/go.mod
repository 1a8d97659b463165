module github.com/headgate/headgate/examples/grpc

go 1.26.0

replace (
	github.com/headgate/headgate => ../../
	github.com/headgate/headgate/grpclimit => ../../grpclimit
)

require (
	github.com/headgate/headgate v0.1.0
	github.com/headgate/headgate/grpclimit v0.1.0
	google.golang.org/grpc v1.85.0
)

require (
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
