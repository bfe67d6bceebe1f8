package cdn_test

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// clusterOverlay has the listener and the upstream of nginx on Kubernetes.
const clusterOverlay = "../kubernetes/overlays/nginx"

// startClusterCDN runs nginx with the files that its pods on Kubernetes mount. The first address stands in for the Service.
func startClusterCDN(t *testing.T, replicas [2]string) *cdn {
	t.Helper()
	program := findNginx(t)
	secure := freeAddress(t)
	c := &cdn{t: t, folder: t.TempDir(), secure: "https://" + secure, secureAddress: secure, ended: make(chan struct{})}
	c.adapt("nginx.conf", "/var/cache/nginx", c.folder, "/var/log/nginx", c.folder)
	c.adapt("tls.conf", "listen 8443 ", "listen "+secure+" ", "/etc/nginx/tls", c.folder)
	c.adaptFrom(clusterOverlay, "site.conf", "https://api.example.com", c.secure)
	c.adaptFrom(clusterOverlay, "upstream.conf", "sara:80", replicas[0])
	c.certify()
	c.startNginx(program, secure)
	return c
}

// Behind a Service, a GET that one pod does not answer goes to the next one. The Service's address also gets the next request, however
// many pods failed to answer before.
func TestNginxOnKubernetes(t *testing.T) {
	o := newOriginBehind(t, startClusterCDN)
	var silent atomic.Int64 // requests that get no answer
	o.answers(func(_ int, w http.ResponseWriter, _ *http.Request) {
		if silent.Add(-1) >= 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	for _, c := range []struct {
		name         string
		silent       int64
		status       int
		wantReceived int64
	}{
		{"all pods answer", 0, http.StatusNoContent, 1},
		{"a pod does not answer", 1, http.StatusNoContent, 2},
		{"no pod answers", 100, http.StatusServiceUnavailable, 3},
		{"all pods answer again", 0, http.StatusNoContent, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			silent.Store(c.silent)
			o.received[0].Store(0)
			a, err := ask(o.cdn.secureAsker, http.MethodGet, o.cdn.secure+"/v1/me")
			if err != nil || a.status != c.status {
				t.Errorf("the answer is %d, %v; want %d", a.status, err, c.status)
			}
			o.wantReceived(t, c.wantReceived)
		})
	}
}
