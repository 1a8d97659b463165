package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/headgate/headgate/internal/certs"
)

// DefaultCheckFiles is how often the files of certificates are looked at unless told otherwise.
const DefaultCheckFiles = 10 * time.Second

// TLS are the certificates of a server. Their files are watched: when they change, new connections get the new ones. If the
// new files are bad, the old certificates stay in use, and the log says so.
type TLS struct {
	// Certificates are pairs of files. A client gets the first that is good for the name it asks for, or the first of all.
	Certificates []CertificateFiles
	// ClientCAFile has the certificates of those who vouch for callers, in PEM; callers then need a certificate of theirs.
	// Default none: callers need no certificate.
	ClientCAFile string
	// MinVersion is the oldest version of TLS that is spoken: tls.VersionTLS12 or tls.VersionTLS13. Default the former.
	MinVersion uint16
	// CheckFiles is how often the files are looked at. Default DefaultCheckFiles.
	CheckFiles time.Duration
}

// CertificateFiles is a certificate and its key, in PEM. Certificates of those who issued it follow it in its file.
type CertificateFiles struct{ CertFile, KeyFile string }

// Certificates are those of a TLS, in use. They are safe for concurrent use.
type Certificates struct {
	set        *certs.Set
	minVersion uint16
	every      time.Duration
	log        *slog.Logger
}

// Open reads the certificates, which tell the log when they change. It returns nil for a nil TLS.
func (t *TLS) Open(log *slog.Logger) (*Certificates, error) {
	if t == nil {
		return nil, nil
	}
	if v := t.MinVersion; v != 0 && v != tls.VersionTLS12 && v != tls.VersionTLS13 {
		return nil, fmt.Errorf("TLS.MinVersion %s: want TLS 1.2 or TLS 1.3", tls.VersionName(v))
	}
	every := t.CheckFiles
	if every == 0 {
		every = DefaultCheckFiles
	}
	if every < time.Millisecond {
		return nil, fmt.Errorf("TLS.CheckFiles %s: want at least 1ms, or 0 for %s", every, DefaultCheckFiles)
	}
	files := make([]certs.Files, len(t.Certificates))
	for i, f := range t.Certificates {
		files[i] = certs.Files(f)
	}
	set, err := certs.Load(files, t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return &Certificates{set: set, minVersion: t.MinVersion, every: every, log: log}, nil
}

// Config returns a configuration that goes by them, also when they change, for a server that speaks these protocols, as ALPN
// names them.
func (c *Certificates) Config(protocols ...string) *tls.Config {
	made := c.set.Config(c.minVersion)
	made.NextProtos = protocols
	return made
}

// Watch looks at the files again and again, until ctx ends.
func (c *Certificates) Watch(ctx context.Context) { c.set.Watch(ctx, c.every, c.log) }

// Reload looks at the files now, rather than when it is time to. Of no certificates there is nothing to reload.
func (c *Certificates) Reload() error {
	if c == nil {
		return nil
	}
	return c.set.Reload(c.log)
}
