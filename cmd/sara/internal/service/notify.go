package service

import (
	"context"
	"fmt"
	"net"
)

// Notify reports to the service manager that the server listens, by systemd's protocol: see sd_notify(3). The socket is the value of
// NOTIFY_SOCKET, which is empty where no manager waits for that.
func Notify(ctx context.Context, socket string) error {
	if socket == "" {
		return nil
	}
	connection, err := new(net.Dialer).DialContext(ctx, "unixgram", socket)
	if err != nil {
		return fmt.Errorf("report to NOTIFY_SOCKET: %w", err)
	}
	defer func() { _ = connection.Close() }() // a datagram is sent by Write
	if _, err := connection.Write([]byte("READY=1")); err != nil {
		return fmt.Errorf("report to NOTIFY_SOCKET: %w", err)
	}
	return nil
}
