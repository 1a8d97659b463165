// Package clienttest tests package client against the real decision service.
package clienttest
