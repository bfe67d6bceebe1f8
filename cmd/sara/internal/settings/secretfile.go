package settings

import (
	"io"
	"os"
	"strings"
)

const (
	// secretTag is the tag of the settings that a file may hold.
	secretTag = "secret"
	// secretFileSuffix makes the name of the variable that names such a file.
	secretFileSuffix = "_FILE"
	maxSecretFile    = 64 << 10
)

// A secret is a setting that may hold a secret, which must not be on the command line.
type secret interface{ holdsSecret() bool }

func (k *SecretKey) holdsSecret() bool  { return true }
func (k *SecretKeys) holdsSecret() bool { return true }
func (k *APIKey) holdsSecret() bool     { return true }
func (d *Database) holdsSecret() bool {
	return !strings.HasPrefix(d.text, "sqlite:") && mask(d.text) != d.text
}
func (r *Redis) holdsSecret() bool { return mask(r.text) != r.text }

// readSecret returns the text of a file without the line break at its end. An error names the file, and never quotes it.
func readSecret(setting, path string) (string, error) {
	text, err := readAtMost(path, maxSecretFile+1)
	switch value := strings.TrimRight(string(text), "\r\n"); {
	case err != nil:
		return "", Errorf(setting, "%v", err)
	case len(text) > maxSecretFile:
		return "", Errorf(setting, "%s has more than %d bytes: name a file with the value alone", path, maxSecretFile)
	case value == "":
		return "", Errorf(setting, "%s is empty: write the value into it", path)
	default:
		return value, nil
	}
}

// readAtMost reads the beginning of a file.
func readAtMost(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(file, most))
}
