package check

import (
	"os"
	"strings"
	"testing"
)

// TestSara holds what deployments rely on against the binary, which is built once.
func TestSara(t *testing.T) {
	binary := saraBinary(t)
	t.Run("the build's version is told", func(t *testing.T) {
		if os.Getenv("SARA_BINARY") != "" {
			t.Skip("SARA_BINARY was not built here")
		}
		out, err := sara(t, binary, nil, "version")
		if err != nil || !strings.Contains(out, builtVersion) || !strings.Contains(out, builtRevision) {
			t.Errorf("%v, %s", err, out)
		}
	})
	t.Run("every setting that is mentioned exists", func(t *testing.T) { testSettings(t, binary) })
	t.Run("the settings of pods are accepted", func(t *testing.T) {
		for _, folder := range kustomizations(t) {
			testAccepted(t, binary, podEnvironment(t, render(t, folder)))
		}
	})
	t.Run("the settings of compose are accepted", func(t *testing.T) { testComposeFits(t, binary) })
	t.Run("the secrets of compose are read", func(t *testing.T) { testSecrets(t, binary) })
	t.Run("every metric that is asked for exists", func(t *testing.T) { testMetrics(t, binary) })
}
