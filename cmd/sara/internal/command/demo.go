package command

import (
	"context"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/demo"
	"sara/cmd/sara/internal/service"
	"sara/cmd/sara/internal/settings"
)

type demoCommand struct {
	Listen         string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the public API, port 0 for any free one; default: ${default}."`
	UpstreamListen string `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of the simulated Search Console; default: any free port."`
	AdminListen    string `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Address of /metrics, /livez and /readyz; default: any free port."`
	settings.Clock
	LogLevel settings.Level `type:"setting" default:"error" placeholder:"LEVEL" help:"debug, info, warn or error; default: ${default}."`
	All      bool           `help:"Print all keys and properties."`
	JSON     bool           `name:"json" help:"Print all keys and properties as one line of JSON when ready, for programs."`
}

func (c *demoCommand) Run(ctx context.Context, con *console.Console) error {
	listeners, err := c.listen()
	if err != nil {
		return err
	}
	defer service.Close(listeners.Public, listeners.Upstream, listeners.Admin)
	return demo.Run(ctx, con, demo.Options{Listeners: listeners, LogLevel: c.LogLevel, Clock: c.Clock, Version: con.Version, JSON: c.JSON, All: c.All})
}

func (c *demoCommand) listen() (l demo.Listeners, err error) {
	if l.Public, err = service.Listen("--listen", c.Listen); err != nil {
		return l, err
	}
	if l.Upstream, err = service.Listen("--upstream-listen", c.UpstreamListen); err != nil {
		service.Close(l.Public)
		return l, err
	}
	if l.Admin, err = service.Listen("--admin-listen", c.AdminListen); err != nil {
		service.Close(l.Public, l.Upstream)
		return l, err
	}
	return l, nil
}
