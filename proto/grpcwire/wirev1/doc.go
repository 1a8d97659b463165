// Package wirev1 has hand-written codecs for the frequent messages of headgate.v1: they are decoded without copies,
// encoded in one pass, and reused.
//
// Strings point into the message's own buffer and are valid until the message is read again. Unknown fields are
// skipped, and repeated fields count as in protobuf. Tests compare each message with the code that protoc generates.
package wirev1
