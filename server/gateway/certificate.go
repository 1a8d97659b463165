package gateway

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/headgate/headgate/server/internal/certs"
)

// DefaultCheckFilesEvery is the default of TLS.CheckFilesEvery.
const DefaultCheckFilesEvery = 10 * time.Second

// TLS configures the certificates of a listener. When the files change, new connections get the new certificates. If
// the new files are invalid, the old certificates stay in use, and the error is logged.
type TLS struct {
	// Certificates are pairs of files. A client gets the first certificate that is valid for the server name it sends
	// (SNI). If there is none, it gets the first certificate of the list.
	Certificates []CertificateFiles
	// MinVersion is the minimum TLS version: tls.VersionTLS12 or tls.VersionTLS13. Default TLS 1.2.
	MinVersion uint16
	// CheckFilesEvery is the time between two checks of the files. Default DefaultCheckFilesEvery.
	CheckFilesEvery time.Duration
}

// CertificateFiles are a certificate and its key, in PEM. In CertFile, intermediate certificates follow the
// certificate.
type CertificateFiles = certs.Files

func (t *TLS) validate(errs *configErrors, field string) {
	if len(t.Certificates) == 0 {
		errs.add(field+".Certificates", "", "at least one")
	}
	for i, files := range t.Certificates {
		if _, err := files.Load(); err != nil {
			errs.add(indexed(field+".Certificates", i), "("+err.Error()+")", "files with a certificate and its key in PEM")
		}
	}
	if v := t.MinVersion; v != 0 && v != tls.VersionTLS12 && v != tls.VersionTLS13 {
		errs.add(field+".MinVersion", tls.VersionName(v), "TLS 1.2 or TLS 1.3")
	}
	validateRange(errs, field+".CheckFilesEvery", t.CheckFilesEvery, time.Millisecond, maxDuration)
}

func certificateStats(set *certs.Set, listener string) []CertificateStats {
	var list []CertificateStats
	set.Each(func(file string, pair *tls.Certificate) {
		list = append(list, CertificateStats{Listener: listener, CertFile: file, NotAfter: pair.Leaf.NotAfter})
	})
	return list
}

// Reload checks the certificate files now. If files cannot be loaded, it returns the error, and their old certificates
// stay in use.
func (g *Gateway) Reload() error {
	var errs []error
	for _, ls := range g.listeners {
		if ls.certificates != nil {
			errs = append(errs, ls.certificates.Reload(g.config.Logger))
		}
	}
	return errors.Join(errs...)
}
