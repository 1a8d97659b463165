// Package grpcwire is the codec of our gRPC servers and clients: messages that are asked for often read and write their
// wire bytes themselves, all others go through the protobuf library.
package grpcwire
