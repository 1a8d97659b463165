package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/internal/certs"
)

// warnBefore is the remaining lifetime of a certificate below which there is a warning.
const warnBefore = 30 * 24 * time.Hour

// A certificateFile is a configured file with certificates.
type certificateFile struct {
	setting, cert string
	key           string // "" for a file of CA certificates
}

// certificateFiles returns all files with certificates.
func certificateFiles(c *config.Config) (list []certificateFile) {
	addPairs := func(setting string, files []config.CertificateFiles) {
		for i, f := range files {
			list = append(list, certificateFile{fmt.Sprintf("%s.certificates[%d]", setting, i), f.CertFile, f.KeyFile})
		}
	}
	addCAs := func(setting, file string) {
		if file != "" {
			list = append(list, certificateFile{setting: setting, cert: file})
		}
	}
	for i, l := range c.Gateway.Listeners {
		if l.TLS != nil {
			addPairs(fmt.Sprintf("gateway.listeners[%d].tls", i), l.TLS.Certificates)
		}
	}
	for i := range c.Gateway.Routes {
		for j, u := range c.Gateway.Routes[i].Upstreams {
			if u.TLS == nil {
				continue
			}
			setting := fmt.Sprintf("gateway.routes[%d].upstreams[%d].tls", i, j)
			addCAs(setting+".ca_file", u.TLS.CAFile)
			if u.TLS.CertFile != "" {
				list = append(list, certificateFile{setting + ".cert_file", u.TLS.CertFile, u.TLS.KeyFile})
			}
		}
	}
	for _, l := range []struct {
		setting string
		tls     *config.ServiceTLS
	}{
		{"service.api.tls", c.Service.API.TLS},
		{"service.grpc.tls", c.Service.GRPC.TLS},
		{"service.resp.tls", c.Service.RESP.TLS},
		{"admin.tls", c.Admin.TLS},
	} {
		if l.tls != nil {
			addPairs(l.setting, l.tls.Certificates)
			addCAs(l.setting+".client_ca_file", l.tls.ClientCAFile)
		}
	}
	addCAs("rules_service.ca_file", c.RulesService.CAFile)
	return list
}

// checkCertificates checks that certificates match their keys, and when they expire.
func (r *run) checkCertificates(context.Context) {
	for _, f := range certificateFiles(r.config) {
		if f.key != "" {
			if _, err := (certs.Files{CertFile: f.cert, KeyFile: f.key}).Load(); err != nil {
				r.problem(f.setting, err.Error(), "use a certificate in PEM with its own private key")
				continue
			}
		}
		chain, err := readCertificates(f.cert)
		if err != nil {
			r.problem(f.setting, err.Error(), "use a file with certificates in PEM")
			continue
		}
		r.checkDates(f, chain)
	}
}

// checkDates adds a result about the certificate of a chain that expires first, or about one that is not valid yet.
func (r *run) checkDates(f certificateFile, chain []*x509.Certificate) {
	now, first := r.Now(), chain[0]
	for _, c := range chain {
		if now.Before(c.NotBefore) {
			r.problem(f.setting, fmt.Sprintf("%s: %s is not valid before %s", f.cert, certificateName(c),
				c.NotBefore.Format(time.RFC3339)),
				"check the clock of this host, or use another certificate")
			return
		}
		if c.NotAfter.Before(first.NotAfter) {
			first = c
		}
	}
	left := first.NotAfter.Sub(now)
	detail := fmt.Sprintf("%s: %s expires on %s", f.cert, certificateName(first), first.NotAfter.Format(time.DateOnly))
	const fix = "renew the certificate and replace the file; headgate reads it again by itself"
	switch {
	case left <= 0:
		detail = fmt.Sprintf("%s: %s expired on %s", f.cert, certificateName(first), first.NotAfter.Format(time.DateOnly))
		r.problem(f.setting, detail, fix)
	case left < warnBefore:
		r.warn(f.setting, fmt.Sprintf("%s, in %d days", detail, int(left/(24*time.Hour))), fix)
	default:
		r.ok(f.setting, "%s", detail)
	}
}

// certificateName returns the name of a certificate for messages.
func certificateName(c *x509.Certificate) string {
	switch {
	case c.Subject.CommonName != "":
		return c.Subject.CommonName
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	}
	return "the certificate with serial number " + c.SerialNumber.String()
}

// readCertificates reads all certificates of a PEM file.
func readCertificates(file string) (list []*x509.Certificate, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s contains no certificate", file)
	}
	return list, nil
}
