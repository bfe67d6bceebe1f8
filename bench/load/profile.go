package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"sara/bench/internal/trial"
	"sara/bench/internal/wire"
)

// profile writes a CPU profile of a scenario's replica, taken in a closed loop of its own so that no figure has it in it.
func (w *world) profile(ctx context.Context, s scenario, load wire.Load, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	file := filepath.Join(folder, s.name+".pprof")
	seconds := max(1, int(load.Duration.Seconds()))
	address := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", w.Stage.Replicas[w.replicas[s.replica]].AdminURL, seconds)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.download(ctx, address, file) })
	group.Go(func() error {
		result, err := load.Run(ctx)
		if err != nil {
			return err
		}
		return trial.Unexpected(result, s.statuses...)
	})
	return group.Wait()
}

func (w *world) download(ctx context.Context, address, path string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := w.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", address, response.Status)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, response.Body)
	return errors.Join(err, file.Close())
}
