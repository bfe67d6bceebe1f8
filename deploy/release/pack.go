package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pack writes the archives, the image and the checksums.
func (r *release) pack(binaries map[platform]string) error {
	for p, path := range binaries {
		if err := check(p, path); err != nil {
			return err
		}
		if err := r.archive(p, path); err != nil {
			return fmt.Errorf("archive for %s: %w", p, err)
		}
	}
	if err := r.image(binaries); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return r.sum()
}

// check returns an error if a binary is not for the given platform.
func check(p platform, path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	built := make(map[string]string)
	for _, setting := range info.Settings {
		built[setting.Key] = setting.Value
	}
	if found := (platform{built["GOOS"], built["GOARCH"]}); found != p {
		return fmt.Errorf("%s is a binary for %s, not for %s", path, found, p)
	}
	return nil
}

// archive writes the binary with its licence.
func (r *release) archive(p platform, binary string) error {
	var files []file
	for name, path := range map[string]string{"sara": binary, "LICENSE": filepath.Join(r.Root, "LICENSE")} {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if name == "sara" {
			mode = 0o755
		}
		files = append(files, file{name: name, mode: mode, content: content})
	}
	text, err := r.tar(files)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, r.Compression)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, r.name(p)+".tar.gz"), packed.Bytes(), 0o644)
}

// A file is a file of an archive or of an image, or an empty folder.
type file struct {
	name    string
	mode    fs.FileMode
	owner   int // user and group
	content []byte
}

// tar returns an archive of the files, ordered by name.
func (r *release) tar(files []file) ([]byte, error) {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: int64(f.mode.Perm()), Uid: f.owner, Gid: f.owner, ModTime: r.Date,
			Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		if f.mode&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		if f.mode.IsDir() {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return text.Bytes(), err
}

// sum writes the SHA-256 of every file of the release, for sha256sum -c. The image's files name each other by their own.
func (r *release) sum() error {
	sums := make(map[string]string)
	err := filepath.WalkDir(r.Out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.Out, path)
		sums[filepath.ToSlash(name)] = fmt.Sprintf("%x", sha256.Sum256(content))
		return err
	})
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "%s  %s\n", sums[name], name)
	}
	return os.WriteFile(filepath.Join(r.Out, "SHA256SUMS"), []byte(text.String()), 0o644)
}
