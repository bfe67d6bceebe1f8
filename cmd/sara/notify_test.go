package main

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"sara/cmd/sara/internal/clitest"
)

// testNotifies checks that serve reports to systemd when it listens, so that "systemctl restart sara && sara status" finds it ready.
func testNotifies(t *testing.T, binary string) {
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = manager.Close() }()
	if err := manager.SetReadDeadline(time.Now().Add(clitest.Hurry)); err != nil {
		t.Fatal(err)
	}
	p, base, admin := serving(t, binary, []string{"NOTIFY_SOCKET=" + socket, "SARA_COLLECT=off", "SARA_INSPECT=off"})
	message := make([]byte, 100)
	n, err := manager.Read(message)
	if err != nil || string(message[:n]) != "READY=1" {
		t.Errorf("systemd receives %q, %v", message[:n], err)
	}
	clitest.WantStatus(t, http.StatusOK, base+"/v1/openapi.json", "")
	clitest.WantStatus(t, http.StatusOK, admin+"/readyz", "")
	p.stopped()

	// A manager that does not listen any more does not keep sara from serving.
	p, base, _ = serving(t, binary, []string{"NOTIFY_SOCKET=" + socket + "-away", "SARA_COLLECT=off", "SARA_INSPECT=off"})
	clitest.WantStatus(t, http.StatusOK, base+"/v1/openapi.json", "")
	p.stopped()
}
