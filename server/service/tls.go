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

// TLS configures the certificates of a server. Their files are watched: when they change, new connections get the new
// certificates. If the new files are invalid, the old certificates stay in use, and this is logged.
type TLS struct {
	// Certificates are pairs of files. A client gets the first certificate for its server name, or the first of all.
	Certificates []CertificateFiles
	// ClientCAFile has the CA certificates for clients, in PEM; callers then need a certificate that one of them
	// signed. Default none: callers need no certificate.
	ClientCAFile string
	// MinVersion is the oldest accepted TLS version: tls.VersionTLS12 (default) or tls.VersionTLS13.
	MinVersion uint16
	// CheckFilesEvery is the interval between checks of the files. Default DefaultCheckFilesEvery.
	CheckFilesEvery time.Duration
}

// CertificateFiles is a certificate and its key, in PEM. Intermediate certificates follow it in its file.
type CertificateFiles struct{ CertFile, KeyFile string }

// Certificates are the loaded certificates of a TLS. They are safe for concurrent use.
type Certificates struct {
	set        *certs.Set
	minVersion uint16
	checkFiles time.Duration
	log        *slog.Logger
}

// Open loads the certificates. Later changes of the files are logged to log. Open returns nil for a nil TLS.
func (t *TLS) Open(log *slog.Logger) (*Certificates, error) {
	if t == nil {
		return nil, nil
	}
	if v := t.MinVersion; v != 0 && v != tls.VersionTLS12 && v != tls.VersionTLS13 {
		return nil, fmt.Errorf("TLS.MinVersion %s: want TLS 1.2 or TLS 1.3", tls.VersionName(v))
	}
	checkFiles := cmp.Or(t.CheckFilesEvery, DefaultCheckFilesEvery)
	if checkFiles < time.Millisecond {
		return nil, fmt.Errorf("TLS.CheckFilesEvery %s: want at least 1ms, or 0 for %s", checkFiles, DefaultCheckFilesEvery)
	}
	files := make([]certs.Files, len(t.Certificates))
	for i, f := range t.Certificates {
		files[i] = certs.Files(f)
	}
	set, err := certs.Load(files, t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return &Certificates{set: set, minVersion: t.MinVersion, checkFiles: checkFiles, log: log}, nil
}

// Config returns a configuration that always uses the current certificates. protocols are the server's ALPN names.
func (c *Certificates) Config(protocols ...string) *tls.Config {
	config := c.set.Config(c.minVersion)
	config.NextProtos = protocols
	return config
}

// Watch checks the files regularly until ctx ends.
func (c *Certificates) Watch(ctx context.Context) { c.set.Watch(ctx, c.checkFiles, c.log) }

// Reload checks the files now. It does nothing if c is nil.
func (c *Certificates) Reload() error {
	if c == nil {
		return nil
	}
	return c.set.Reload(c.log)
}
