package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and group that the container runs as.
const imageUser = 65532

// A descriptor points to a blob of an image, as the OCI image specification defines it.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// An imageConfig describes how to run an image.
type imageConfig struct {
	Created string `json:"created"`
	platform
	Config struct {
		User         string              `json:"User"`
		ExposedPorts map[string]struct{} `json:"ExposedPorts"`
		Env          []string            `json:"Env"`
		Entrypoint   []string            `json:"Entrypoint"`
		Cmd          []string            `json:"Cmd"`
		Volumes      map[string]struct{} `json:"Volumes"`
		Labels       map[string]string   `json:"Labels"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// A manifest lists the blobs of an image, or the images of an index.
type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// An image collects the files of an OCI image layout.
type image struct{ files []file }

func (im *image) add(mediaType string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	im.files = append(im.files, file{name: "blobs/sha256/" + digest, mode: 0o644, data: data})
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(data)}
}

func (im *image) addJSON(mediaType string, value any) (descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return im.add(mediaType, data), nil
}

// writeImage writes an image for all Linux targets as an OCI archive, which "docker load" and skopeo read.
func (r *release) writeImage(targets []*target) error {
	im := new(image)
	index := manifest{SchemaVersion: 2, MediaType: mediaIndex}
	for _, t := range targets {
		if t.os != "linux" {
			continue
		}
		d, err := r.addPlatform(im, t)
		if err != nil {
			return err
		}
		index.Manifests = append(index.Manifests, d)
	}
	if len(index.Manifests) == 0 {
		return nil
	}
	d, err := im.addJSON(mediaIndex, index)
	if err != nil {
		return err
	}
	d.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": r.number(),
		"io.containerd.image.name":          "localhost/headgate:" + r.number(),
	}
	top, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: mediaIndex, Manifests: []descriptor{d}})
	if err != nil {
		return err
	}
	all := append([]file{
		{name: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", mode: 0o644, data: top},
	}, im.files...)
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	all = slices.CompactFunc(all, func(a, b file) bool { return a.name == b.name })
	name := fmt.Sprintf("headgate_%s_image.oci.tar", r.number())
	r.log("%s: container image", name)
	return r.create(name, func(w io.Writer) error { return writeTar(w, all, r.date) })
}

// addPlatform adds the image of one target.
func (r *release) addPlatform(im *image, t *target) (descriptor, error) {
	content, err := imageFiles(t)
	if err != nil {
		return descriptor{}, err
	}
	var layer bytes.Buffer
	if err := writeTar(&layer, content, r.date); err != nil {
		return descriptor{}, err
	}
	sum := sha256.Sum256(layer.Bytes())
	compressed, err := compress(layer.Bytes())
	if err != nil {
		return descriptor{}, err
	}
	c := imageConfig{Created: r.date.Format(time.RFC3339), platform: platform{t.arch, t.os}}
	c.Config.User = fmt.Sprintf("%d:%d", imageUser, imageUser)
	c.Config.ExposedPorts = map[string]struct{}{}
	for port := 8080; port <= 8084; port++ {
		c.Config.ExposedPorts[fmt.Sprintf("%d/tcp", port)] = struct{}{}
	}
	c.Config.Env = []string{"PATH=/usr/bin", "HEADGATE_DATA_DIR=/var/lib/headgate"}
	c.Config.Entrypoint, c.Config.Cmd = []string{"/usr/bin/headgate"}, []string{"serve"}
	c.Config.Volumes = map[string]struct{}{"/var/lib/headgate": {}}
	c.Config.Labels = map[string]string{
		"org.opencontainers.image.title": "headgate", "org.opencontainers.image.version": r.version,
		"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source": "https://github.com/headgate/headgate",
	}
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{"sha256:" + hex.EncodeToString(sum[:])}
	config, err := im.addJSON(mediaConfig, c)
	if err != nil {
		return descriptor{}, err
	}
	d, err := im.addJSON(mediaManifest, manifest{
		SchemaVersion: 2, MediaType: mediaManifest, Config: &config,
		Layers: []descriptor{im.add(mediaLayer, compressed)},
	})
	d.Platform = &c.platform
	return d, err
}

// imageFiles returns the files of the image: the program, CA certificates, and an unprivileged user.
func imageFiles(t *target) ([]file, error) {
	program, err := os.ReadFile(t.binary)
	if err != nil {
		return nil, err
	}
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a PEM file cannot hold the constraint
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	user := fmt.Sprintf("headgate:x:%d:%d::/var/lib/headgate:/sbin/nologin\n", imageUser, imageUser)
	dir := func(name string, owned bool) file {
		return file{name: name, mode: os.ModeDir | 0o755, owned: owned}
	}
	return []file{
		dir("etc/", false),
		{name: "etc/passwd", mode: 0o644, data: []byte(user)},
		dir("etc/ssl/", false),
		dir("etc/ssl/certs/", false),
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: roots.Bytes()},
		dir("usr/", false),
		dir("usr/bin/", false),
		{name: "usr/bin/headgate", mode: 0o755, data: program},
		dir("var/", false),
		dir("var/lib/", false),
		dir("var/lib/headgate/", true),
	}, nil
}
