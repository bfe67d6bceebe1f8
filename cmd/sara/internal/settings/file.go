package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A settingsFile is what a YAML file sets.
type settingsFile struct {
	path    string
	entries map[string]fileEntry // by setting
}

// A fileEntry is the text of a setting, and the line that it is on.
type fileEntry struct {
	text string
	line int
}

// readFile reads a YAML mapping of setting names, which have to be known, to single values.
func readFile(path string, known map[string]string) (*settingsFile, error) {
	file := &settingsFile{path: path, entries: make(map[string]fileEntry)}
	const longest = 1 << 20
	text, err := readAtMost(path, longest+1)
	if err == nil && len(text) > longest {
		err = fmt.Errorf("%s has more than %d bytes", path, longest)
	}
	if err != nil {
		return nil, Errorf("SARA_CONFIG", "%v; name a YAML file with settings, such as listen: 127.0.0.1:8080", err)
	}
	// Not into a map: the errors of that decoder quote values, which may be secrets.
	document, err := parseYAML(text)
	if err != nil {
		return nil, Errorf(path, "%v; write settings like listen: 127.0.0.1:8080", err)
	}
	if len(document.Content) == 0 {
		return file, nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, Errorf(path, "it is not a YAML mapping of settings, such as listen: 127.0.0.1:8080")
	}
	var errs []error
	unknown := false
	for i := 0; i < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		if _, ok := known[name.Value]; !ok {
			unknown = true
			errs = append(errs, Errorf(path, "line %d: unknown setting %q", name.Line, name.Value))
			continue
		}
		errs = append(errs, file.add(name, value))
	}
	if unknown {
		errs = append(errs, Errorf(path, "the settings are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
	}
	return file, errors.Join(errs...)
}

// parseYAML parses a text with at most one YAML document. Its error has no value of the text.
func parseYAML(text []byte) (document yaml.Node, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err = decoder.Decode(&document); errors.Is(err, io.EOF) {
		return document, nil
	}
	if err == nil {
		if err = decoder.Decode(new(yaml.Node)); errors.Is(err, io.EOF) {
			return document, nil
		}
	}
	switch {
	case err == nil:
		err = errors.New("it has several YAML documents: remove the lines --- between them")
	case strings.Contains(err.Error(), "anchor"): // it quotes the value
		err = errors.New("a value that begins with * or & needs quotes")
	}
	return document, err
}

// add adds one entry.
func (f *settingsFile) add(name, value *yaml.Node) error {
	earlier, duplicate := f.entries[name.Value]
	switch {
	case duplicate:
		return Errorf(f.path, "line %d: duplicate setting %s; remove this line or line %d", name.Line, name.Value, earlier.line)
	case value.Kind != yaml.ScalarNode:
		return Errorf(f.path, "line %d: setting %s is not a single value; write it like %s: VALUE", name.Line, name.Value, name.Value)
	case value.Tag == "!!null":
		f.entries[name.Value] = fileEntry{line: name.Line}
	default:
		f.entries[name.Value] = fileEntry{value.Value, name.Line}
	}
	return nil
}
