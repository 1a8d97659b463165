// Package grpcwire is the codec of Headgate's gRPC servers and clients. Frequent messages implement [Message], which
// is faster. All other messages use the protobuf library.
package grpcwire
