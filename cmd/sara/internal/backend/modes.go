package backend

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sara/cmd/sara/internal/settings"
)

// The bits of a file mode for users other than the owner and its group. A group may be there for backups.
const (
	othersAny  = 0o007
	othersPass = 0o001 // of a folder: to what is in it
)

// ModeNote names the local files that every user of the machine can reach, such as those of an earlier version or of a restored
// copy: sara creates them for its own user only. It is empty if all is well.
func ModeNote(database settings.Database, archive settings.Bucket) string {
	var open []string
	for _, path := range []string{database.File, archive.Folder} {
		if path != "" && isOpenToOthers(path) {
			open = append(open, path)
		}
	}
	if len(open) == 0 {
		return ""
	}
	paths := strings.Join(open, " ")
	return fmt.Sprintf("every user of this machine can reach %s: chmod -R go= %s", paths, paths)
}

// isOpenToOthers looks at the folder around too: if others cannot pass it, the modes in it do not matter.
func isOpenToOthers(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&othersAny == 0 {
		return false
	}
	around, err := os.Stat(filepath.Dir(path))
	return err == nil && around.Mode().Perm()&othersPass != 0
}
