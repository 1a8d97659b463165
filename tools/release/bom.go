package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"
)

// A bom is a bill of materials in the CycloneDX format, version 1.5.
type bom struct {
	Format       string      `json:"bomFormat"`
	SpecVersion  string      `json:"specVersion"`
	SerialNumber string      `json:"serialNumber"`
	Version      int         `json:"version"`
	Metadata     bomMetadata `json:"metadata"`
	Components   []component `json:"components"`
}

type bomMetadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []bomHash  `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// writeBOM writes the bill of materials of a target: the modules that the go command recorded in the program.
func (r *release) writeBOM(t *target) error {
	info, err := buildinfo.ReadFile(t.binary)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(t.binary)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(program)
	main := moduleComponent("application", info.Main.Path, r.version)
	main.Hashes = []bomHash{{"SHA-256", hex.EncodeToString(sum[:])}}
	b := bom{
		Format: "CycloneDX", SpecVersion: "1.5", Version: 1, SerialNumber: serial(sum),
		Metadata:   bomMetadata{r.date.Format(time.RFC3339), main},
		Components: []component{moduleComponent("library", "stdlib", info.GoVersion)},
	}
	for _, dep := range info.Deps {
		b.Components = append(b.Components, r.dependency(dep))
	}
	name := fmt.Sprintf("headgate_%s_%s.cdx.json", r.number(), t)
	return r.create(name, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(b)
	})
}

// dependency returns the component of a module. Modules of this repository have the version of the release.
func (r *release) dependency(dep *debug.Module) component {
	if dep.Replace != nil && dep.Replace.Version != "" {
		dep = dep.Replace
	}
	version := dep.Version
	if dep.Sum == "" {
		version = r.version
	}
	c := moduleComponent("library", dep.Path, version)
	if dep.Sum != "" {
		c.Properties = []property{{"go:sum", dep.Sum}}
	}
	return c
}

func moduleComponent(kind, path, version string) component {
	purl := "pkg:golang/" + path + "@" + version
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}

// serial returns a UUID that depends only on the checksum of the program.
func serial(sum [sha256.Size]byte) string {
	b := sum[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80 // version 8, RFC 9562
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
