// Package grpcwire is the codec of our gRPC servers and clients: frequent messages encode and decode themselves, all
// others use the protobuf library.
package grpcwire
