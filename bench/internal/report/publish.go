package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Publish writes the report into a folder, which it makes if need be: NAME.json, NAME.md and the pictures, which the
// latter shows.
func (r *Report) Publish(folder, name string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := r.Save(filepath.Join(folder, name+".json")); err != nil {
		return err
	}
	pictures, err := r.Plots(folder, name)
	if err != nil {
		return err
	}
	var text strings.Builder
	if err := r.Markdown(&text); err != nil {
		return err
	}
	for _, picture := range pictures {
		fmt.Fprintf(&text, "\n![%s](%s)\n", strings.TrimSuffix(picture, ".svg"), picture)
	}
	return os.WriteFile(filepath.Join(folder, name+".md"), []byte(text.String()), 0o644)
}
