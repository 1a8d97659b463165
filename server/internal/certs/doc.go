// Package certs loads certificates from files and reloads them when the files change.
//
// If new files are invalid, the old certificates stay in use, and Reload returns and logs the error.
package certs
