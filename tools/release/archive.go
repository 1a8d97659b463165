package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// writeArchive writes the archive of a target: a zip file for Windows, a compressed tar file for other systems.
func (r *release) writeArchive(t *target, m *manual) error {
	program, err := os.ReadFile(t.binary)
	if err != nil {
		return err
	}
	files := []file{{name: filepath.Base(t.binary), mode: 0o755, data: program}}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return err
		}
		files = append(files, file{name: name, mode: 0o644, data: data})
	}
	for _, f := range m.pages {
		files = append(files, file{name: "man/man1/" + f.name, mode: f.mode, data: f.data})
	}
	for _, f := range m.completions {
		files = append(files, file{name: "completions/" + f.name, mode: f.mode, data: f.data})
	}
	dir := fmt.Sprintf("headgate_%s_%s", r.number(), t)
	for i := range files {
		files[i].name = dir + "/" + files[i].name
	}
	t.archive = dir + ".tar.gz"
	write := writeTarGz
	if t.os == "windows" {
		t.archive, write = dir+".zip", writeZip
	}
	return r.create(t.archive, func(w io.Writer) error { return write(w, files, r.date) })
}

// create writes a file of the release.
func (r *release) create(name string, write func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeTarGz(w io.Writer, files []file, date time.Time) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(z, files, date), z.Close())
}

// writeTar writes files. They belong to root unless owned is set. The headers do not depend on the host.
func writeTar(w io.Writer, files []file, date time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{
			Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(f.data)), ModTime: date, Format: tar.FormatPAX,
			Typeflag: tar.TypeReg,
		}
		if f.mode.IsDir() {
			header.Typeflag = tar.TypeDir
		}
		if f.owned {
			header.Uid, header.Gid = imageUser, imageUser
		}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeZip(w io.Writer, files []file, date time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		header.SetMode(f.mode)
		entry, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.data); err != nil {
			return err
		}
	}
	return z.Close()
}
