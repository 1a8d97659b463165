package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"syscall"
)

// Why a call to somebody else's address failed, as callers of the API are told. Details such as the address that a name leads
// to, or the server that looked it up, say how our network looks inside: they are for the log.
var (
	errNotInTime    = errors.New("it did not respond in time")
	errNoSuchHost   = errors.New("its name was not found")
	errRefusedConn  = errors.New("it refused the connection")
	errBadTLS       = errors.New("its certificate is not valid, or it does not speak TLS")
	errNotReachable = errors.New("it could not be reached")
)

// faultOf returns what callers are told of an error of an HTTP client.
func faultOf(err error) error {
	var (
		late    interface{ Timeout() bool }
		name    *net.DNSError
		invalid *tls.CertificateVerificationError
		unknown x509.UnknownAuthorityError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, errNotPublic):
		return errNotPublic
	case errors.Is(err, errBadAddress):
		return errBadAddress
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &late) && late.Timeout():
		return errNotInTime
	case errors.As(err, &name):
		return errNoSuchHost
	case errors.Is(err, syscall.ECONNREFUSED):
		return errRefusedConn
	case errors.As(err, &invalid), errors.As(err, &unknown), errors.As(err, &record):
		return errBadTLS
	default:
		return errNotReachable
	}
}
