// Command sbom prints the software bill of materials of a Go binary, such as that of an image: CycloneDX 1.6 in JSON.
//
//	go run ./sbom BINARY [VERSION] >sara.cdx.json
//
// It lists what the linker recorded in the binary (go version -m): the modules that are actually in it, with the hashes from go.sum, and the
// standard library. The same binary always has the same SBOM: it contains no time. Tools that do more, such as cyclonedx-gomod, take longer
// to compile than sara's gate can spare.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	if len(args) < 1 || len(args) > 2 {
		return errors.New("usage: sbom BINARY [VERSION]")
	}
	bill, err := billOf(args[0])
	if err != nil {
		return err
	}
	if len(args) == 2 {
		bill.Metadata.Component.Version = args[1]
	}
	return cdx.NewBOMEncoder(stdout, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill, cdx.SpecVersion1_6)
}

// billOf returns the SBOM of a binary, which identifies it by its SHA-256.
func billOf(binary string) (*cdx.BOM, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	program := cdx.Component{BOMRef: info.Path, Type: cdx.ComponentTypeApplication, Name: path.Base(info.Path), Version: info.Main.Version,
		Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}}
	parts := []cdx.Component{component("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	var uses []string
	for _, dependency := range info.Deps {
		part, err := module(dependency)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	for _, part := range parts {
		uses = append(uses, part.BOMRef)
	}
	bill := cdx.NewBOM()
	bill.Metadata = &cdx.Metadata{Component: &program}
	bill.Components = &parts
	bill.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &uses}}
	return bill, nil
}

// module returns a dependency, or its replacement.
func module(m *debug.Module) (cdx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	part := component(m.Path, m.Version)
	hash, ok := strings.CutPrefix(m.Sum, "h1:")
	sum, err := base64.StdEncoding.DecodeString(hash)
	if !ok || err != nil || len(sum) != sha256.Size {
		return part, fmt.Errorf("module %s %s has no hash: build from released modules", m.Path, m.Version)
	}
	part.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	return part, nil
}

func component(name, version string) cdx.Component {
	reference := "pkg:golang/" + name + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: reference, Type: cdx.ComponentTypeLibrary, Name: name, Version: version,
		Scope: cdx.ScopeRequired, PackageURL: reference}
}
