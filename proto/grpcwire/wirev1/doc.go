// Package wirev1 has hand-written types for the frequent messages of the protobuf package headgate.v1. They encode and
// decode themselves faster than generated code, and can be reused to save memory.
//
// UnmarshalWire copies the encoded message to a buffer, and the strings of the message are parts of that buffer. They
// are valid until the next UnmarshalWire of the same message. Unknown fields are skipped. Tests compare each message
// with the code that protoc generates.
package wirev1
