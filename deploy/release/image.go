package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// owner is the user and the group of the image's process.
const owner = 65532

// image writes the image for the Linux platforms as an OCI layout: one index, tagged with the version. It is equivalent to the
// Dockerfile's; a test compares them.
func (r *release) image(binaries map[platform]string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms() {
		binary, ok := binaries[p]
		if p.OS != "linux" || !ok {
			continue
		}
		image, err := r.imageOf(p, binary)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.OS, Architecture: p.Arch}}})
	}
	place, err := layout.Write(filepath.Join(r.Out, "image"), empty.Index)
	if err != nil {
		return err
	}
	return place.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.Version}))
}

// imageOf returns the image for a platform: a layer with what rarely changes, and one with the binary.
func (r *release) imageOf(p platform, binary string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	files, err := r.surroundings()
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	for _, files := range [][]file{files, {{name: "sara", mode: 0o755, content: program}}} {
		layer, err := r.layer(files)
		if err != nil {
			return nil, err
		}
		history := v1.History{Created: v1.Time{Time: r.Date}, CreatedBy: "deploy/release"}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: history}); err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created, config.Config = p.OS, p.Arch, v1.Time{Time: r.Date}, r.config()
	return mutate.ConfigFile(image, config)
}

// surroundings are the files of the image other than the binary.
func (r *release) surroundings() ([]file, error) {
	certificates, err := os.ReadFile(r.Certificates)
	if err != nil {
		return nil, err
	}
	licence, err := os.ReadFile(filepath.Join(r.Root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	return []file{
		{name: "LICENSE", mode: 0o644, content: licence},
		{name: "etc/passwd", mode: 0o644, content: []byte("sara:x:65532:65532:sara:/var/lib/sara:/sbin/nologin\n")},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates},
		{name: "tmp/", mode: fs.ModeDir | fs.ModeSticky | 0o777, owner: owner},
		{name: "var/lib/sara/", mode: fs.ModeDir | 0o750, owner: owner},
	}, nil
}

func (r *release) layer(files []file) (v1.Layer, error) {
	text, err := r.tar(files)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(r.Compression))
}

func (r *release) config() v1.Config {
	return v1.Config{
		User: "65532:65532", WorkingDir: "/var/lib/sara", Entrypoint: []string{"/sara"}, Cmd: []string{"serve"},
		Env:          []string{"SARA_LISTEN=0.0.0.0:8080", "SARA_ADMIN_LISTEN=0.0.0.0:9090", "SARA_LOG_FORMAT=json"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "9090/tcp": {}},
		Volumes:      map[string]struct{}{"/var/lib/sara": {}},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/sara", "health"}, Interval: 10 * time.Second, Timeout: 5 * time.Second,
			StartPeriod: 30 * time.Second, Retries: 3},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "sara",
			"org.opencontainers.image.description": "The Search Analytics Read API over Google Search Console",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     r.Version,
			"org.opencontainers.image.revision":    r.Revision,
		},
	}
}
