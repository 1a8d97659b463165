package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk" // registers the format
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// writePackages writes the Debian, RPM and Alpine packages of a target.
func (r *release) writePackages(t *target, m *manual) error {
	staged, err := os.MkdirTemp(filepath.Dir(t.binary), "staged-")
	if err != nil {
		return err
	}
	contents, err := r.packageContents(t, m, staged)
	if err != nil {
		return err
	}
	if err := r.stageScripts(staged); err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm", "apk"} {
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		info := nfpm.WithDefaults(r.packageInfo(t, contents, staged))
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return err
		}
		name := fmt.Sprintf("headgate_%s_%s.%s", r.number(), t, format)
		err = r.create(name, func(w io.Writer) error { return packager.Package(info, w) })
		if err != nil {
			return err
		}
	}
	return nil
}

// The scripts of the packages.
const postInstall, preRemove, postRemove = "postinstall.sh", "preremove.sh", "postremove.sh"

// stageScripts copies the scripts to the staging directory, with the time of the commit: the Alpine package contains
// the times of its scripts.
func (r *release) stageScripts(staged string) error {
	for _, name := range []string{postInstall, preRemove, postRemove} {
		data, err := os.ReadFile(filepath.Join(r.root, "packaging", name))
		if err != nil {
			return err
		}
		path := filepath.Join(staged, name)
		if err := os.WriteFile(path, data, 0o755); err != nil {
			return err
		}
		if err := os.Chtimes(path, r.date, r.date); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) packageInfo(t *target, contents files.Contents, staged string) *nfpm.Info {
	script := func(name string) string { return filepath.Join(staged, name) }
	return &nfpm.Info{
		Name: "headgate", Arch: t.arch, Platform: t.os, Version: r.version, MTime: r.date,
		Section: "net", Priority: "optional", License: "Apache-2.0", DisableGlobbing: true,
		Maintainer: "Headgate maintainers <maintainers@headgate.invalid>", Homepage: "https://github.com/headgate/headgate",
		Description: "Rate limiter: gateway, decision service and rules service\n" +
			"Headgate decides, for every request, how much of a service each client may use.",
		Overridables: nfpm.Overridables{
			Contents: contents,
			Scripts: nfpm.Scripts{
				PostInstall: script(postInstall), PreRemove: script(preRemove), PostRemove: script(postRemove),
			},
			RPM: nfpm.RPM{BuildHost: "localhost", Group: "System Environment/Daemons"},
			APK: nfpm.APK{Scripts: nfpm.APKScripts{PostUpgrade: script(postInstall)}},
		},
	}
}

// packageContents lists the files of the packages. Generated files are written to the staging directory first.
func (r *release) packageContents(t *target, m *manual, staged string) (files.Contents, error) {
	packaging := func(name string) string { return filepath.Join(r.root, "packaging", name) }
	info := func(mode os.FileMode) *files.ContentFileInfo {
		return &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date}
	}
	list := files.Contents{
		{Source: t.binary, Destination: "/usr/bin/headgate", FileInfo: info(0o755)},
		{Destination: "/etc/headgate", Type: files.TypeDir, FileInfo: info(0o750)},
		{
			Source: packaging("headgate.yaml"), Destination: "/etc/headgate/headgate.yaml",
			Type: files.TypeConfigNoReplace, FileInfo: info(0o640),
		},
		{
			Source: packaging("headgate.service"), Destination: "/usr/lib/systemd/system/headgate.service",
			Packager: "rpm", FileInfo: info(0o644),
		},
		{
			Source: packaging("headgate.service"), Destination: "/lib/systemd/system/headgate.service",
			Packager: "deb", FileInfo: info(0o644),
		},
		{Source: packaging("headgate.openrc"), Destination: "/etc/init.d/headgate", Packager: "apk", FileInfo: info(0o755)},
		{Source: filepath.Join(r.root, "LICENSE"), Destination: "/usr/share/doc/headgate/copyright", FileInfo: info(0o644)},
	}
	var errs []error
	stage := func(f file, destination string) {
		path := filepath.Join(staged, f.name)
		errs = append(errs, os.WriteFile(path, f.data, 0o644))
		list = append(list, &files.Content{Source: path, Destination: destination, FileInfo: info(0o644)})
	}
	for _, page := range m.pages {
		compressed, err := compress(page.data)
		errs = append(errs, err)
		stage(file{name: page.name + ".gz", data: compressed}, "/usr/share/man/man1/"+page.name+".gz")
	}
	for _, c := range m.completions {
		switch filepath.Ext(c.name) {
		case ".bash":
			stage(c, "/usr/share/bash-completion/completions/headgate")
		case ".zsh":
			stage(c, "/usr/share/zsh/site-functions/_headgate")
		case ".fish":
			stage(c, "/usr/share/fish/vendor_completions.d/headgate.fish")
		}
	}
	return list, errors.Join(errs...)
}

// compress returns data in gzip format, without a name or time.
func compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = z.Write(data)
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}
