package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The files with the checksums and their signature. unsignedFile stands in for the signature if there is no key.
const (
	sumsFile      = "SHA256SUMS"
	signatureFile = "SHA256SUMS.sig"
	unsignedFile  = "UNSIGNED"
)

// writeSums writes the checksums of all files, in the format of sha256sum.
func (r *release) writeSums() error {
	entries, err := os.ReadDir(r.out) // sorted
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, e := range entries {
		sum, err := r.sum(e.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, sumsFile), list.Bytes(), 0o644)
}

// sum returns the SHA-256 checksum of a file of the release.
func (r *release) sum(name string) (string, error) {
	f, err := os.Open(filepath.Join(r.out, name))
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it was only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sign signs the checksums with the Ed25519 key in a PEM file. Without a key it writes unsignedFile.
func (r *release) sign(keyFile string) error {
	if keyFile == "" {
		r.log("UNSIGNED: set HEADGATE_SIGNING_KEY to a PEM file with an Ed25519 private key")
		const text = "This is a snapshot without a signature. Do not distribute it.\n"
		return os.WriteFile(filepath.Join(r.out, unsignedFile), []byte(text), 0o644)
	}
	key, err := readKey(keyFile)
	if err != nil {
		return fmt.Errorf("HEADGATE_SIGNING_KEY: %w", err)
	}
	sums, err := os.ReadFile(filepath.Join(r.out, sumsFile))
	if err != nil {
		return err
	}
	r.log("signed %s", sumsFile)
	return os.WriteFile(filepath.Join(r.out, signatureFile), ed25519.Sign(key, sums), 0o644)
}

func readKey(path string) (ed25519.PrivateKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("the file is not in PEM: create one with openssl genpkey -algorithm ed25519")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the key is %T: want an Ed25519 key, from openssl genpkey -algorithm ed25519", parsed)
	}
	return key, nil
}
