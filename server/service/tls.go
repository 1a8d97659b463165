package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/headgate/headgate/server/internal/certs"
)

// DefaultCheckFilesEvery is the default interval between checks of the certificate files.
const DefaultCheckFilesEvery = 10 * time.Second

// TLS configures the certificates of a server. The server watches their files. After a change, new connections get the
// new certificates. If the new files are invalid, the server logs an error and continues to use the old certificates.
type TLS struct {
	// Certificates lists the certificates and their keys. A client gets the first certificate that matches its server
	// name. If none matches, the client gets the first certificate of the list.
	Certificates []CertificateFiles
	// ClientCAFile is a PEM file of CA certificates. If it is set, callers need a certificate that one of these CAs
	// signed. Default none: callers need no certificate.
	ClientCAFile string
	// MinVersion is the oldest accepted TLS version: tls.VersionTLS12 (default) or tls.VersionTLS13.
	MinVersion uint16
	// CheckFilesEvery is the interval between checks of the files for changes. Default DefaultCheckFilesEvery.
	CheckFilesEvery time.Duration
}

// CertificateFiles names the PEM files of a certificate and its key. Intermediate certificates follow the certificate
// in CertFile.
type CertificateFiles struct{ CertFile, KeyFile string }

// Certificates contains the certificates that TLS.Open has loaded. It is safe for concurrent use.
type Certificates struct {
	set        *certs.Set
	minVersion uint16
	checkEvery time.Duration
	log        *slog.Logger
}

// Open loads the certificates. Later loads of changed files are logged to log. If t is nil, Open returns nil.
func (t *TLS) Open(log *slog.Logger) (*Certificates, error) {
	if t == nil {
		return nil, nil
	}
	if v := t.MinVersion; v != 0 && v != tls.VersionTLS12 && v != tls.VersionTLS13 {
		return nil, fmt.Errorf("TLS.MinVersion %s: want TLS 1.2 or TLS 1.3", tls.VersionName(v))
	}
	checkEvery := cmp.Or(t.CheckFilesEvery, DefaultCheckFilesEvery)
	if checkEvery < time.Millisecond {
		return nil, fmt.Errorf("TLS.CheckFilesEvery %s: want at least 1ms, or 0 for %s", checkEvery, DefaultCheckFilesEvery)
	}
	files := make([]certs.Files, len(t.Certificates))
	for i, f := range t.Certificates {
		files[i] = certs.Files(f)
	}
	set, err := certs.Load(files, t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return &Certificates{set: set, minVersion: t.MinVersion, checkEvery: checkEvery, log: log}, nil
}

// Config returns a configuration that always uses the current certificates. protocols are the ALPN protocols that the
// server offers.
func (c *Certificates) Config(protocols ...string) *tls.Config {
	config := c.set.Config(c.minVersion)
	config.NextProtos = protocols
	return config
}

// Watch checks the files for changes every TLS.CheckFilesEvery until ctx ends.
func (c *Certificates) Watch(ctx context.Context) { c.set.Watch(ctx, c.checkEvery, c.log) }

// Reload loads the files now if they have changed. It does nothing if c is nil.
func (c *Certificates) Reload() error {
	if c == nil {
		return nil
	}
	return c.set.Reload(c.log)
}
