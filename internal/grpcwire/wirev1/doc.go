// Package wirev1 has the messages of headgate.v1 that are asked for often, as they stand on the wire: they are read without
// copying what is read, written without measuring first, and used again.
//
// What is read is borrowed from the message's own buffer: its strings are good until the message is read anew. Fields that
// are not known are skipped, and what is given twice counts as protobuf says. The tests hold each message against the code
// that protoc generates.
package wirev1
