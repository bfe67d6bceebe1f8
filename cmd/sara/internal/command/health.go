package command

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
	"sara/cmd/sara/internal/status"
	"sara/proxy"
)

type healthCommand struct {
	settings.File
	settings.Admin
	console.Output
	URL string `name:"url" placeholder:"URL" help:"URL of the server's admin endpoints, such as http://127.0.0.1:9090; default: --admin-listen on this machine."`
}

func (c *healthCommand) Run(ctx context.Context, con *console.Console) error {
	base, err := status.AdminURL(c.AdminListen, c.URL)
	if err != nil {
		return usage(err)
	}
	transport := &http.Transport{} // ignore proxies of the environment
	defer transport.CloseIdleConnections()
	s, err := status.Readiness(ctx, transport, base)
	if err != nil {
		return err
	}
	canServe := s.State == proxy.StateReady || s.State == proxy.StateDegraded
	switch {
	case c.JSON:
		err = console.PrintJSON(con.Stdout, s)
	case canServe:
		_, err = fmt.Fprintln(console.Text(con.Stdout), strings.TrimSuffix(s.State+": "+s.Reason, ": "))
	}
	if err == nil && !canServe {
		err = fmt.Errorf("%s is %s: %s", base, s.State, s.Reason)
	}
	return err
}
