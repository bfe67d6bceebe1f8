package check

import (
	"path/filepath"
	"strings"
	"testing"

	"sara/cmd/sara/saratest"
)

// TestSara checks with the binary what deployments rely on.
func TestSara(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs sara")
	}
	binary := saratest.Binary(t)
	t.Run("the Dockerfile's build has its version", func(t *testing.T) {
		binary := filepath.Join(t.TempDir(), "sara")
		if err := saratest.Build(t.Context(), binary, linkerFlags(t)); err != nil {
			t.Fatal(err)
		}
		out, err := sara(t, binary, nil, "version")
		if err != nil || !strings.Contains(out, builtVersion) || !strings.Contains(out, builtRevision) || !strings.Contains(out, builtDate) {
			t.Errorf("%v, %s", err, out)
		}
	})
	t.Run("every setting mentioned in deploy exists", func(t *testing.T) { testSettings(t, binary) })
	t.Run("the pods' settings are valid", func(t *testing.T) {
		for _, folder := range kustomizations(t) {
			testAccepted(t, binary, podEnvironment(t, render(t, folder)))
		}
	})
	t.Run("the Compose settings are valid", func(t *testing.T) { testComposeFits(t, binary) })
	t.Run("the Compose secrets are read", func(t *testing.T) { testSecrets(t, binary) })
	t.Run("every queried metric exists", func(t *testing.T) { testMetrics(t, binary) })
}
