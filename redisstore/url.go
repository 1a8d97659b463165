package redisstore

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate/internal/redisurl"
)

// parseURL reads a URL.
func parseURL(raw string) (*redisurl.Endpoint, error) {
	e, err := redisurl.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	return e, nil
}

// withOptions adds to what the URL says what the options say; where both do, it is the URL.
func withOptions(e *redisurl.Endpoint, o *Options) error {
	if e.DialTimeout == 0 {
		e.DialTimeout = o.DialTimeout
	}
	if e.HangTimeout == 0 {
		e.HangTimeout = o.HangTimeout
	}
	if o.TLSConfig == nil {
		return nil
	}
	if e.TLS == nil {
		return errors.New("redisstore: Options.TLSConfig with a URL that does not ask for TLS: want rediss:// or tls=true")
	}
	base := o.TLSConfig.Clone()
	if e.TLS.ServerName != "" {
		base.ServerName = e.TLS.ServerName
	}
	if e.TLS.RootCAs != nil {
		base.RootCAs = e.TLS.RootCAs
	}
	if e.TLS.Certificates != nil {
		base.Certificates = e.TLS.Certificates
	}
	base.InsecureSkipVerify = base.InsecureSkipVerify || e.TLS.InsecureSkipVerify
	if base.MinVersion == 0 {
		base.MinVersion = e.TLS.MinVersion
	}
	e.TLS = base
	return nil
}
