package backend

import (
	"os"
	"path/filepath"
	"testing"

	"sara/cmd/sara/internal/settings"
)

func TestModeNote(t *testing.T) {
	around := filepath.Join(t.TempDir(), "data")
	folder, file := filepath.Join(around, "archive"), filepath.Join(around, "sara.db")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want := func(aroundMode, folderMode, fileMode os.FileMode, want string) {
		t.Helper()
		for path, mode := range map[string]os.FileMode{around: aroundMode, folder: folderMode, file: fileMode} {
			if err := os.Chmod(path, mode); err != nil { // unlike at creation, without the umask
				t.Fatal(err)
			}
		}
		if note := ModeNote(settings.SQLite(file), settings.LocalArchive(folder)); note != want {
			t.Errorf("around %o, folder %o, file %o: %q, want %q", aroundMode, folderMode, fileMode, note, want)
		}
	}
	const reach = "every user of this machine can reach "
	want(0o755, 0o700, 0o600, "")
	want(0o755, 0o750, 0o640, "") // a group may read it
	want(0o755, 0o755, 0o600, reach+folder+": chmod -R go= "+folder)
	want(0o755, 0o700, 0o644, reach+file+": chmod -R go= "+file)
	want(0o755, 0o755, 0o644, reach+file+" "+folder+": chmod -R go= "+file+" "+folder)
	want(0o700, 0o755, 0o644, "")
	if note := ModeNote(settings.SQLite(":memory:"), settings.LocalArchive(filepath.Join(folder, "not", "yet"))); note != "" {
		t.Errorf("without files: %q", note)
	}
}
