// Package backend opens what the settings name: the database, Redis, the archive and Search Console. Preflight checks report
// what is wrong with one before it is needed, without changing anything.
//
// Errors are those of package settings: they name the setting, what is wrong and how to fix it, and hold no secret.
package backend

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sara/cmd/sara/internal/settings"
	"sara/proxy/cache"
	"sara/proxy/upstream"
)

// checkTimeout bounds each preflight check.
const checkTimeout = 5 * time.Second

// UnavailableError means that the setting is valid, but its server does not answer now.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return e.Err.Error() }

func (e *UnavailableError) Unwrap() error { return e.Err }

// OpenGateway returns the gateway to Search Console. The caller closes it.
func OpenGateway(s settings.Upstream, config upstream.Config) (*upstream.Gateway, error) {
	config.BaseURL, config.TokenURL = s.UpstreamURL.String(), s.OAuthTokenURL.String()
	redisErrors, err := cache.RedisErrors(config.Registerer)
	if err != nil {
		return nil, err
	}
	config.RedisErrors = redisErrors
	gateway, err := upstream.New(config)
	if err != nil {
		return nil, settings.Errorf("SARA_UPSTREAM_URL", "%v", err)
	}
	return gateway, nil
}

// checkCreatable returns an error if a file or a folder cannot be created, without creating it: its owner must be the user that runs the
// server, not the one that runs the check.
func checkCreatable(path string) error {
	folder := filepath.Dir(path)
	for {
		_, err := os.Stat(folder)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			return fmt.Errorf("its folder cannot be created: %w", err)
		}
		folder = filepath.Dir(folder)
	}
	probe, err := os.CreateTemp(folder, "sara-check-")
	if err != nil {
		return fmt.Errorf("it cannot be created: %w", cause(err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// cause returns an error of a file without the file's name, which means nothing to people if it is random.
func cause(err error) error {
	if named, ok := errors.AsType[*fs.PathError](err); ok {
		return named.Err
	}
	return err
}

// isNetwork reports whether an error is one of the network. An error number, such as that of a file, has the methods of net.Error as well.
func isNetwork(err error) bool {
	network, ok := errors.AsType[net.Error](err)
	_, isNumber := network.(syscall.Errno)
	return ok && !isNumber
}

// OneLine returns the text of an error without line breaks, because each line of output is an error of its own.
func OneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
