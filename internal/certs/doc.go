// Package certs keeps certificates in use that are read from files, and takes new ones into use when the files change.
//
// What is bad about new files changes nothing: the old certificates stay, and whoever reloads is told.
package certs
